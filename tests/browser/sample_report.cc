// Writes reports of made-up runs, for the browser test and for looking at while the page is
// changed:
//
//   sample_report FOLDER     pair.html (predicted and measured), predicted.html, large.html,
//                            replicas.html (predicted and emulated, 6 iterations),
//                            replicas_once.html (1 iteration),
//                            folded.html (96 ranks, 2 iterations), cut.html (half of a timeline),
//                            long_names.html (of datacenters),
//                            line.html (a density that follows the line), line_silent.html (and no reasons),
//                            batch.html (a batch that is divided anew),
//                            graphs.html, graphs_once.html (one rank for all), heat_map.html,
//                            streams.html, sweep.html, planner.html
//
// The runs are 1F1B on two stages in two datacenters, but for replicas (sample_replicas.h). The
// "measured" one is the same arithmetic with seeded noise; it exists only to be drawn.
#include <cmath>
#include <cstdio>
#include <string>

#include "base/file.h"
#include "base/random.h"
#include "predict/cost/price_plan.h"
#include "sample_graphs.h"
#include "sample_heat_map.h"
#include "sample_line.h"
#include "sample_planner.h"
#include "sample_replicas.h"
#include "sample_streams.h"
#include "sample_sweep.h"
#include "spec/plan/job.h"
#include "spec/plan/plan_file.h"
#include "ui/report/report.h"

namespace {

using namespace tombolo;
using action::ActionKind;

constexpr const char* kJob = R"(
[model]
layers = 8
hidden = 256
heads = 8
vocabulary = 256
sequence = 256
[[cluster.datacenter]]
name = "oregon"
device = { name = "laptop", peak = "50 GFLOPS", memory = "8 GB", memory_bandwidth = "10 GBps" }
[[cluster.datacenter]]
name = "paris"
device = { name = "laptop", peak = "50 GFLOPS", memory = "8 GB", memory_bandwidth = "10 GBps" }
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "20 ms"
node_pair_limit = "1 Gbps"
[training]
global_batch = 16
micro_batch = 2
precision = "fp32"
[parallelism]
pipeline = 2
schedule = "1f1b"
[run]
steps = 20
)";

struct RunOptions {
  trace::Provenance provenance = trace::Provenance::kPredicted;
  int iterations = 3;
  int microbatches = 8;
  double noise = 0;  // relative, of every duration
  bool learns = false;
};

// Two ranks, each a list of actions, performed as soon as their input is there.
class Runner {
 public:
  Runner(const RunOptions& options, const plan::Plan& plan)
      : options_(options), plan_(plan), random_(Random(7).stream(to_name(options.provenance))) {
    trace_.header.provenance = options.provenance;
    trace_.header.name = plan.name;
    trace_.header.version = "0.1.0";
    trace_.header.seed = 7;
    trace_.header.plan = plan::to_value(plan);
    trace_.header.plan_digest = plan::plan_digest(plan);
    const bool predicted = options.provenance == trace::Provenance::kPredicted;
    trace_.header.command = predicted ? "tombolo simulate two-datacenters.toml --iterations 3"
                                      : "tombolo train two-datacenters.toml --out run";
    if (predicted) trace_.header.fingerprint = "5f1d09c2a7be4e13";
    for (const layout::Placement& p : plan.ranks) {
      trace_.header.ranks.push_back({p.rank, p.stage, p.datacenter, plan.device_of(p.rank).name});
    }
  }

  trace::Trace run() {
    for (int i = 1; i <= options_.iterations; ++i) {
      iterate(i);
      if (options_.learns) learn(i);
    }
    trace::normalize(trace_);
    return std::move(trace_);
  }

 private:
  int64_t vary(double seconds) {
    const double factor = 1 + options_.noise * (0.3 + 0.35 * std::abs(random_.normal()));
    return static_cast<int64_t>(seconds * 1e9 * factor);
  }
  int64_t compute(int rank, ActionKind kind, int microbatch, int64_t ready, double seconds) {
    const int64_t start = std::max(free_[rank], ready);
    free_[rank] = start + vary(seconds);
    trace_.intervals.push_back({trace::Lane::kCompute,
                                rank,
                                -1,
                                {kind, rank, microbatch},
                                iteration_,
                                {start},
                                {free_[rank]},
                                0});
    return free_[rank];
  }
  int64_t send(int rank, ActionKind kind, int microbatch, int64_t ready) {
    const int64_t start = std::max(link_[rank], ready);
    link_[rank] = start + vary(plan_.boundary.value / 125e6);
    const int64_t there = link_[rank] + vary(0.020);
    trace_.intervals.push_back({trace::Lane::kLink,
                                rank,
                                1 - rank,
                                {kind, rank, microbatch},
                                iteration_,
                                {start},
                                {there},
                                static_cast<int64_t>(plan_.boundary.value)});
    return there;
  }

  // Stage 0 runs one forward ahead; stage 1 alternates.
  void iterate(int iteration) {
    iteration_ = iteration;
    const auto& cost0 = plan_.stages[0].cost;
    const auto& cost1 = plan_.stages[1].cost;
    const int m = options_.microbatches;
    std::vector<int64_t> activation(m), gradient(m);
    const auto forward0 = [&](int k) {
      activation[k] = send(0, ActionKind::kSendActivation, k,
                           compute(0, ActionKind::kForward, k, 0, cost0.forward.value));
    };
    const auto both1 = [&](int k) {
      compute(1, ActionKind::kForward, k, activation[k], cost1.forward.value);
      gradient[k] = send(1, ActionKind::kSendGradient, k,
                         compute(1, ActionKind::kBackward, k, 0, cost1.backward.value));
    };
    for (int k = 0; k < m; ++k) {
      forward0(k);
      both1(k);
      if (k > 0) compute(0, ActionKind::kBackward, k - 1, gradient[k - 1], cost0.backward.value);
    }
    compute(0, ActionKind::kBackward, m - 1, gradient[m - 1], cost0.backward.value);
    compute(1, ActionKind::kUpdate, -1, 0, 0.012);
    compute(0, ActionKind::kUpdate, -1, 0, 0.012);
    free_[1] = std::max(free_[1], free_[0]);
  }

  void learn(int iteration) {
    const auto record = [&](const char* name, double value) {
      trace_.records.push_back({name, iteration, 1, {free_[1]}, value});
    };
    record("loss", 2.1 + 3.4 * std::exp(-iteration / 6.0) + 0.05 * random_.normal());
    record("replica_loss", 9);  // not to be drawn
    record("tokens_per_s", 4096 / 2.3 * (1 + 0.03 * random_.normal()));
    record("learning_rate", 3e-4 * std::min(1.0, iteration / 10.0));
    if (iteration % 10 != 0) return;
    record("evaluation_loss", 2.2 + 3.4 * std::exp(-iteration / 6.0));
    iteration_ = 0;
    for (int rank : {0, 1}) compute(rank, ActionKind::kEvaluate, -1, 0, 0.2);
    for (int rank : {0, 1}) compute(rank, ActionKind::kCheckpoint, -1, 0, 0.05);
    free_[0] = free_[1] = std::max(free_[0], free_[1]);
  }

  RunOptions options_;
  const plan::Plan& plan_;
  Random random_;
  trace::Trace trace_;
  int64_t iteration_ = 0;
  int64_t free_[2] = {0, 0};
  int64_t link_[2] = {0, 0};
};

Status write_reports(const std::string& folder) {
  const plan::Plan plan = TRY(cost::make_plan(TRY(plan::parse_job(kJob, "two-datacenters.toml"))));
  const auto save = [&](const char* name, const std::vector<trace::Trace>& traces,
                        const report::Options& options = {}) -> Status {
    return write_file(folder + "/" + name, TRY(report::render_html(options, traces)));
  };
  using enum trace::Provenance;
  const trace::Trace predicted = Runner({}, plan).run();
  const trace::Trace measured = Runner({kMeasured, 20, 8, 0.12, true}, plan).run();
  TRY(save("predicted.html", {predicted}));
  // Neither datacenter names a price.
  const report::Figures slow{.tokens_per_s = 1750,
                             .mfu = 0.31,
                             .cost = {},
                             .devices = 2,
                             .memory_peak = 2_GB,
                             .memory = 8_GB,
                             .memory_rank = 1};
  report::Figures fast = slow;
  fast.tokens_per_s = 1900;
  TRY(save("pair.html", {measured, predicted}, {.figures = {slow, fast}}));
  TRY(save("replicas.html", TRY(sample_replicas(6))));
  std::vector<trace::Trace> long_names = TRY(sample_replicas(1));
  for (trace::Trace& trace : long_names) {
    for (trace::RankLabel& label : trace.header.ranks) label.datacenter += "-availability-zone-1b";
  }
  TRY(save("long_names.html", long_names));
  TRY(save("replicas_once.html", TRY(sample_replicas(1))));
  const report::Figures priced{.tokens_per_s = 2'345'678,
                               .mfu = 0.456,
                               .cost = Dollars{0.0123},
                               .devices = 768,
                               .memory_peak = 70_GB,
                               .memory = 80_GB};
  TRY(save("folded.html", TRY(sample_replicas(2, 24)), {.figures = {priced, priced}}));
  const trace::Trace line = TRY(sample_line(400, true)), silent = TRY(sample_line(40, false));
  TRY(save("line.html", {line}));
  TRY(save("line_silent.html", {silent}));
  TRY(save("batch.html", {TRY(sample_batch(20))}));
  const trace::Trace graphs = TRY(report::sample_graphs(false));
  TRY(save("graphs.html", {graphs}));
  const trace::Trace graphs_once = TRY(report::sample_graphs(true));
  TRY(save("graphs_once.html", {graphs_once}));
  TRY(write_file(folder + "/heat_map.html", report::render_heat_maps(report::sample_heat_map())));
  TRY(write_file(folder + "/streams.html", report::render_streams(report::sample_streams())));
  TRY(write_file(folder + "/sweep.html", report::render_sweep(report::sample_sweep())));
  TRY(write_file(folder + "/planner.html", report::render_planner(report::sample_planner())));

  // 20 iterations of 833 microbatches: 100,000 intervals. 200 of them would be a gigabyte of page.
  trace::Trace large = Runner({kEmulated, 200, 833, 0.1, true}, plan).run();
  large.header.byte_scale = 20;
  large.header.name = "large </script><b>hostile</b>";
  const trace::Trace expected = Runner({.microbatches = 833}, plan).run();
  TRY(save("cut.html", {expected}, {.timeline_bytes = 50'000}));
  return save("large.html", {expected, large});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: sample_report FOLDER\n");
    return 2;
  }
  const Status status = write_reports(argv[1]);
  if (!status) std::fprintf(stderr, "%s\n", status.error().text().c_str());
  return status ? 0 : status.error().exit_code();
}
