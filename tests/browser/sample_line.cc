#include "sample_line.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "spec/plan/job.h"
#include "spec/plan/plan_file.h"

namespace tombolo {
namespace {

constexpr const char* kLineJob = R"(
[model]
layers = 4
hidden = 1024
heads = 16
vocabulary = 18000
sequence = 512
[[cluster.datacenter]]
name = "lab"
device = "emulated:a100-80g"
[[cluster.datacenter]]
name = "cloud"
device = "emulated:a100-80g"
[[cluster.wan]]
between = ["lab", "cloud"]
one_way_latency = "20 ms"
node_pair_limit = "193 Mbps"
connections = 4
[training]
global_batch = 2
micro_batch = 1
precision = "fp32"
[parallelism]
pipeline = 1
data = 2
datacenter_per_replica = ["lab", "cloud"]
[stage_times]
forward = "57 ms"
backward = "113 ms"
[exchange]
mode = "sparse"
density = "auto"
[run]
steps = 400
byte_scale = 10
)";

constexpr const char* kBatchJob = R"(
[model]
layers = 4
hidden = 2048
heads = 16
vocabulary = 1024
sequence = 1024
[[cluster.datacenter]]
name = "fast"
device = { name = "fast", kind = "emulated", peak = "100 TFLOPS", memory = "40 GB", memory_bandwidth = "1000 GBps" }
nodes = 3
devices_per_node = 1
[[cluster.datacenter]]
name = "slow"
device = { name = "slow", kind = "emulated", peak = "47 TFLOPS", memory = "40 GB", memory_bandwidth = "1000 GBps" }
devices_per_node = 1
[[cluster.wan]]
between = ["fast", "slow"]
one_way_latency = "1 ms"
node_pair_limit = "100 Gbps"
[training]
global_batch = 112
micro_batch = 4
[parallelism]
pipeline = 1
data = 4
datacenter_per_replica = ["fast", "fast", "fast", "slow"]
microbatches_per_replica = [7, 7, 7, 7]
adaptive_batch = true
[run]
steps = 40
)";

// From 50 to 600 Mbps, another one every 3 s.
Result<cluster::RateTrace> wandering() {
  Random random(11);
  std::vector<cluster::RateTrace::Step> steps;
  for (int64_t i = 0; i < 30; ++i) {
    const double mbps = std::clamp(170 * std::exp(0.7 * random.normal()), 50.0, 600.0);
    steps.push_back({{i * 3'000'000'000}, BytesPerSecond{mbps * 1e6 / 8}});
  }
  return cluster::RateTrace::make(std::move(steps), {90'000'000'000});
}

}  // namespace

Result<trace::Trace> sample_line(int64_t iterations, bool tells) {
  const plan::Plan plan = TRY(cost::make_plan(TRY(plan::parse_job(kLineJob, "line.toml"))));
  sim::Options options{.iterations = iterations, .steers_density = true};
  options.rates = {TRY(wandering())};
  trace::Trace trace = TRY(sim::simulate(plan, options)).trace;
  trace.header.provenance = trace::Provenance::kEmulated;
  trace.header.byte_scale = plan.run.byte_scale;
  trace.header.fingerprint.clear();
  trace.header.command = "tombolo train line.toml --out run";
  trace.header.version = "0.1.0";
  Random random(12);
  for (const trace::IterationTime& time : trace::iteration_times(trace)) {
    const auto i = static_cast<double>(time.iteration);
    trace.records.push_back({"loss", time.iteration, 0, time.end,
                             2.1 + 3.4 * std::exp(-i / 90) + 0.03 * random.normal()});
    trace.records.push_back({"fresh_share", time.iteration, 0, time.end,
                             std::clamp(0.7 + 0.12 * random.normal(), 0.0, 1.0)});
  }
  if (!tells) {
    std::erase_if(trace.records, [](const auto& each) { return each.name.starts_with("line_"); });
    for (trace::Record& each : trace.records) each.reason.clear();
  }
  trace::normalize(trace);
  return trace;
}

Result<trace::Trace> sample_batch(int64_t iterations) {
  const plan::Plan plan = TRY(cost::make_plan(TRY(plan::parse_job(kBatchJob, "batch.toml"))));
  trace::Trace trace =
      TRY(sim::simulate(plan, {.iterations = iterations, .steers_batch = true})).trace;
  trace.header.fingerprint.clear();
  trace::normalize(trace);
  return trace;
}

}  // namespace tombolo
