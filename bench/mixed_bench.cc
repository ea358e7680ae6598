// How long does a plan over two kinds of GPUs, 640 of them in five zones, take to find?
//
//   mixed_bench [JOB [time|cost [THREADS]]]     left out: examples/planning/five-zones-job.toml
//   time 2
//
// All subsets and orders of the zones, stages and layers per zone, tensor parallelism per kind of
// GPU, data, microbatch, recomputation and ZeRO. Prints one JSON line with CPU seconds of all
// threads and the best plan. Sketch: some 17,000 settings, 30 us each for a bound, of which a few
// hundred are searched at some 10 ms: a few seconds.
// Checked: one thread finds the same plan, and the plan is no faster than all devices at peak.
#include <fmt/format.h>
#include <time.h>

#include <string>

#include "base/check.h"
#include "decide/geo/mixed.h"

using namespace tombolo;

namespace {

double cpu_seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string stages_text(const geo::MixedPlan& plan) {
  std::string text, last;
  int64_t stages = 0, layers = 0;
  const auto flush = [&] {
    if (stages > 0)
      text += fmt::format("{}{} {}/{}", text.empty() ? "" : ", ", last, stages, layers);
    stages = layers = 0;
  };
  for (const geo::MixedStage& stage : plan.stages) {
    if (stage.datacenter != last) flush();
    last = stage.datacenter;
    ++stages;
    layers += stage.layers;
  }
  flush();
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string file = argc > 1 ? argv[1] : "examples/planning/five-zones-job.toml";
  const bool cost = argc > 2 && std::string(argv[2]) == "cost";
  const int threads = argc > 3 ? std::stoi(argv[3]) : 2;
  const Result<plan::OpenJob> open = plan::read_open_job(file);
  if (!open) {
    fmt::print(stderr, "{}\n", open.error().text());
    return open.error().exit_code();
  }
  geo::MixedOptions options;
  if (cost) options.objective = search::Objective::kCost;
  options.threads = threads;
  const double begin = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID), wall = cpu_seconds(CLOCK_MONOTONIC);
  const Result<geo::MixedResult> found = geo::search_mixed(*open, options);
  const double cpu = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - begin;
  const double elapsed = cpu_seconds(CLOCK_MONOTONIC) - wall;
  if (!found) {
    fmt::print(stderr, "{}\n", found.error().text());
    return found.error().exit_code();
  }
  const geo::MixedPlan& best = found->top.front();
  if (threads > 1) {
    options.threads = 1;
    const Result<geo::MixedResult> alone = geo::search_mixed(*open, options);
    CHECK(alone->top.front().score == best.score && alone->evaluated == found->evaluated,
          "{} threads find another plan than one", threads);
  }
  double peak = 0;
  for (const cluster::Datacenter& place : open->job.cluster.datacenters) {
    peak += place.device.peak.value * static_cast<double>(place.devices());
  }
  const Flops work = cost::model_flops(*open->job.model, open->job.training.global_batch);
  CHECK(best.time.iteration > work / FlopsPerSecond{peak}, "faster than all devices at peak");
  fmt::print(
      "{{\"bench\": \"mixed\", \"objective\": \"{}\", \"threads\": {}, \"cpu_s\": {:.3g}, "
      "\"wall_s\": {:.3g}, \"settings\": {}, \"settings_cut\": {}, \"evaluated\": {}, "
      "\"feasible\": {}, \"iteration_s\": {:.4f}, \"cost_usd\": {:.4f}, "
      "\"devices\": {}, \"data\": {}, \"micro_batch\": {}, \"stages\": \"{}\"}}\n",
      cost ? "cost" : "time", threads, cpu, elapsed, found->settings, found->settings_cut,
      found->evaluated, found->feasible, best.time.iteration.value,
      best.cost().value_or(Dollars{}).value, best.devices, best.data, best.micro_batch,
      stages_text(best));
  return 0;
}
