#include "sample_replicas.h"

#include <cmath>

#include "base/random.h"
#include "predict/cost/price_plan.h"
#include "predict/sim/interpret.h"
#include "predict/sim/simulate.h"
#include "spec/plan/job.h"
#include "spec/schedule/schedule.h"

namespace tombolo {
namespace {

constexpr const char* kJob = R"(
[model]
name = "gpt-a"
layers = 8
hidden = 4096
heads = 32
vocabulary = 51200
sequence = 4096
[[cluster.datacenter]]
name = "oregon"
device = "emulated:a100-80g"
nodes = 6
[[cluster.datacenter]]
name = "iowa"
device = "emulated:a100-80g"
nodes = 3
[[cluster.datacenter]]
name = "virginia"
device = "emulated:a100-80g"
nodes = 3
[[cluster.wan]]
between = ["oregon", "iowa"]
one_way_latency = "20 ms"
node_pair_limit = "5 Gbps"
[[cluster.wan]]
between = ["iowa", "virginia"]
one_way_latency = "10 ms"
node_pair_limit = "5 Gbps"
[training]
global_batch = 48
micro_batch = 1
precision = "fp16"
recompute = "full"
[parallelism]
pipeline = 4
data = 3
schedule = "1f1b"
[run]
steps = 6
byte_scale = 100
)";
constexpr int32_t kSlowRank = 7;

// One iteration as the Graph says, with noise.
std::vector<trace::Interval> noisy_iteration(const plan::Plan& plan, const graph::Graphs& exact,
                                             Random& random) {
  graph::Graphs graphs = exact;
  for (graph::Graph& graph : graphs) {
    for (graph::Node& node : graph.nodes) {
      if (node.type != graph::NodeType::kCompute) continue;
      const double slow = graph.rank == kSlowRank ? 0.05 : 0;
      const double factor = 1 + slow + 0.02 * std::abs(random.normal());
      node.duration.ns = std::llround(static_cast<double>(node.duration.ns) * factor);
    }
  }
  const sim::Execution execution = sim::interpret(graphs, sim::channels_of(plan));
  std::vector<trace::Interval> out;
  for (const graph::Graph& graph : graphs) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const graph::Node& node = graph.nodes[i];
      if (node.type == graph::NodeType::kReceive) continue;
      const bool link = node.type == graph::NodeType::kSend;
      const bool sum = node.type == graph::NodeType::kCollective;
      const double bytes = static_cast<double>(node.comm_size) / plan.run.byte_scale;
      out.push_back({.lane = link  ? trace::Lane::kLink
                             : sum ? trace::Lane::kCollective
                                   : trace::Lane::kCompute,
                     .rank = graph.rank,
                     .peer = link ? node.comm_peer : -1,
                     .action = *node.action,
                     .start = execution.spans[graph.rank][i].start,
                     .end = execution.spans[graph.rank][i].end,
                     .bytes = std::llround(bytes)});
    }
  }
  return out;
}

}  // namespace

Result<std::vector<trace::Trace>> sample_replicas(int iterations, int32_t pipelines) {
  plan::Job job = TRY(plan::parse_job(kJob, "three-datacenters.toml"));
  for (cluster::Datacenter& datacenter : job.cluster.datacenters) {
    datacenter.nodes = datacenter.nodes * pipelines / job.parallelism.data;
  }
  job.parallelism.data = pipelines;
  job.training.global_batch = 16 * pipelines;
  const plan::Plan plan = TRY(cost::make_plan(job));
  trace::Trace predicted = TRY(sim::simulate(plan)).trace;
  predicted.header.version = "0.1.0";
  predicted.header.command = "tombolo simulate three-datacenters.toml --out predicted.jsonl";

  trace::Trace emulated;
  emulated.header = predicted.header;
  emulated.header.provenance = trace::Provenance::kEmulated;
  emulated.header.fingerprint.clear();
  emulated.header.byte_scale = plan.run.byte_scale;
  emulated.header.command = "tombolo train three-datacenters.toml --out run/three";
  const schedule::Schedule schedule = TRY(schedule::build(plan));
  const graph::Graphs graphs = schedule::to_graph(plan, schedule);
  Random random = Random(7).stream("replicas");
  SimTime start;
  for (int iteration = 1; iteration <= iterations; ++iteration) {
    SimTime end = start;
    for (trace::Interval interval : noisy_iteration(plan, graphs, random)) {
      interval.iteration = iteration;
      interval.start.ns += start.ns;
      interval.end.ns += start.ns;
      end = std::max(end, interval.end);
      emulated.intervals.push_back(interval);
    }
    emulated.records.push_back({"machine_busy_share", iteration, 0, end, 0.55 + 0.02 * iteration});
    emulated.records.push_back({"machine_lateness_share", iteration, 0, end, 0.001 * iteration});
    emulated.records.push_back({"machine_late_s", iteration, 0, end, 0.004});
    start = end;
  }
  emulated.records.push_back({"machine_realtime", iterations, 0, start, 1});
  // Once it was, so that the page's warning is seen, too.
  emulated.records.push_back(
      {"machine_too_busy", iterations, 0, start, iterations == 1 ? 1.0 : 0.0});
  trace::normalize(emulated);
  return std::vector{predicted, emulated};
}

}  // namespace tombolo
