// How good are the schedules that near_optimal() finds, and how long does it take?
//
//   best_schedule_bench exact [N]      against the proven optimum of N (200) small random instances
//   best_schedule_bench table [N]      against GPipe, 1F1B, interleaved and Varuna with spatial
//                                      sharing and the same memory, on N (60) settings
//   best_schedule_bench large          60 stages, 60 microbatches, cells of 4, 4 datacenters
//
// JSON lines. Forwards take 1 ms, backwards 2 (half of it for weights); w is the transfer of one
// pipeline alone. Gains are baseline / ours - 1; `whole` is without splitting backwards. Varuna is
// made to keep to the memory; `as_published` is without that, where it often does not fit.
// Sketch of `large`: 28,800 computations and 1,440 transfers a play, 150 ns each: 5 ms; 400 plays
// and some 1,000 evaluations of orders at 0.5 ms are 2.5 s of one core.
// Checked: no result is below a lower bound, above a published schedule that fits, over the memory,
// or unsound.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "decide/schedule_proof/exact.h"
#include "decide/schedule_search/near_optimal.h"
#include "spec/schedule/policy.h"

using namespace tombolo;
using namespace tombolo::schedule;
using namespace tombolo::schedule_proof;
using namespace tombolo::schedule_search;

namespace {

struct Instance {
  PipelineShape shape;
  Times times;
  Memory memory;
};

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Found search(const Instance& instance, bool split, bool right_before = true) {
  const Result<Found> found =
      near_optimal(instance.shape, instance.times, instance.memory,
                   {.split_backward = split, .recompute_right_before = right_before});
  CHECK(found, "{}", found.error().text());
  CHECK(validate(found->schedule, instance.shape), "unsound");
  CHECK(makespan_of(found->schedule, instance.shape, instance.times) == found->makespan, "time");
  for (const LowerBound& bound : found->bounds) {
    CHECK(bound.value <= found->makespan, "{} ns below: {}", found->makespan.ns, bound.reason);
  }
  for (const TriedSchedule& other : found->tried) {
    CHECK(!other.fits || other.makespan >= found->makespan, "{} is better", other.name);
  }
  const std::vector<int64_t> peaks = peak_in_flight(found->schedule);
  for (size_t rank = 0; rank < peaks.size() && !instance.memory.in_flight.empty(); ++rank) {
    const size_t position = rank / static_cast<size_t>(instance.shape.replicas);
    CHECK(peaks[rank] <= instance.memory.in_flight[position], "over the memory");
  }
  return *found;
}

// ---- against the optimum ----

Instance random_instance(Random& random) {
  const auto between = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)));
  };
  Instance out;
  out.shape.stages = static_cast<int32_t>(between(2, 4));
  out.shape.microbatches = static_cast<int32_t>(between(2, 4));
  out.shape.replicas = out.shape.cell = static_cast<int32_t>(between(1, 2));
  const bool recompute = between(0, 3) == 0;
  for (int32_t s = 0; s < out.shape.stages; ++s) {
    out.times.stages.push_back({{between(1, 10)}, {between(1, 10)}, {between(1, 10)}, {0}});
    if (recompute) {
      out.shape.recompute.push_back(s + 1 < out.shape.stages);
      out.times.stages.back().recompute = out.times.stages.back().forward;
    }
    if (s + 1 == out.shape.stages) break;
    const bool wan = between(0, 1) == 0;
    out.times.transfer.push_back({wan ? between(1, 20) : 0});
    out.times.latency.push_back({wan ? between(0, 20) : 0});
    if (out.shape.cell > 1) out.shape.shared.push_back(wan);
  }
  if (between(0, 1) == 0) {
    for (int32_t s = 0; s < out.shape.stages; ++s) {
      out.memory.in_flight.push_back(static_cast<int32_t>(between(1, out.shape.microbatches)));
    }
  }
  return out;
}

int against_optimum(int n) {
  Random random = Random(1).stream("best_schedule_bench");
  double sum = 0, worst = 0, ours_s = 0, exact_s = 0;
  int proven = 0, met = 0;
  for (int i = 0; i < n; ++i) {
    const Instance instance = random_instance(random);
    const bool split = i % 2 == 1;
    const bool right_before = i % 4 < 2;
    double begin = wall_seconds();
    const Found found = search(instance, split, right_before);
    ours_s += wall_seconds() - begin;
    begin = wall_seconds();
    const Result<Exact> exact = solve_exact(
        instance.shape, instance.times, instance.memory,
        {.split_backward = split, .recompute_right_before = right_before, .nodes_max = 1'000'000});
    exact_s += wall_seconds() - begin;
    CHECK(exact, "{}", exact.error().text());
    if (!exact->proven) continue;
    ++proven;
    const double gap =
        static_cast<double>(found.makespan.ns) / static_cast<double>(exact->makespan.ns) - 1;
    CHECK(gap >= 0 || split, "instance {} is below its optimum", i);
    sum += gap;
    worst = std::max(worst, gap);
    met += gap == 0;
    if (gap > 0.02) {
      fmt::print(
          "{{\"instance\":{},\"split\":{},\"p\":{},\"m\":{},\"C\":{},\"recompute\":{},\"limited\":{"
          "},"
          "\"ours\":{},\"optimum\":{},\"by\":\"{}\"}}\n",
          i, split, instance.shape.stages, instance.shape.microbatches, instance.shape.cell,
          !instance.shape.recompute.empty(), !instance.memory.in_flight.empty(), found.makespan.ns,
          exact->makespan.ns, found.schedule.name);
    }
  }
  fmt::print(
      "{{\"bench\":\"best_schedule exact\",\"instances\":{},\"proven\":{},\"optimal\":{},"
      "\"mean_gap\":{:.4f},\"worst_gap\":{:.4f},\"ours_s\":{:.2f},\"exact_s\":{:.2f}}}\n",
      n, proven, met, sum / proven, worst, ours_s, exact_s);
  return 0;
}

// ---- against others ----

struct Setting {
  int32_t p, datacenters, cell, m;
  double w, latency;  // in forwards
  int32_t in_flight;  // 0: no limit
};

constexpr int64_t kForward = 1'000'000;

bool wan_after(const Setting& setting, int32_t position) {
  return position * setting.datacenters / setting.p !=
         (position + 1) * setting.datacenters / setting.p;
}

// Chunks of a rank take a share of its time; from the last position back to the first is a WAN.
Instance instance_of(const Setting& setting, bool temporal, int32_t chunks = 1) {
  Instance out;
  out.shape = {.stages = setting.p * chunks,
               .microbatches = setting.m,
               .replicas = setting.cell,
               .chunks = chunks,
               .mapping = chunks > 1 ? layout::StageMapping::kLoop : layout::StageMapping::kLine};
  if (temporal) out.shape.cell = setting.cell;
  const int64_t each = kForward / chunks;
  out.times = equal_times(out.shape.stages, {{each}, {each}, {each}, {0}});
  for (int32_t s = 0; s + 1 < out.shape.stages; ++s) {
    const int32_t position = s % setting.p;
    const bool wan = position + 1 == setting.p || wan_after(setting, position);
    const double transfer = setting.w * kForward / (temporal ? setting.cell : 1);
    out.times.transfer.push_back({wan ? std::llround(transfer) : 0});
    out.times.latency.push_back({wan ? std::llround(setting.latency * kForward) : 0});
    if (temporal) out.shape.shared.push_back(wan);
  }
  if (setting.in_flight > 0) {
    out.memory.in_flight.assign(static_cast<size_t>(setting.p), setting.in_flight * chunks);
  }
  return out;
}

struct Baseline {
  std::string name;
  SimDuration makespan;
};

// The best of the four that keeps to the memory. Varuna does not care for it, but can be made to.
Baseline best_baseline(const Setting& setting, bool limit_varuna) {
  Baseline best;
  for (const std::string name : {"gpipe", "1f1b", "interleaved", "varuna"}) {
    const Instance instance = instance_of(setting, false, name == "interleaved" ? 2 : 1);
    Schedule schedule;
    if (name == "varuna") {
      Rules rules = varuna_rules(instance.shape, instance.times, layout::Discipline::kGreedy);
      if (limit_varuna) rules.in_flight = instance.memory.in_flight;
      schedule = play(name, instance.shape, instance.times, rules)->schedule;
    } else {
      schedule = *build(*layout::find_schedule(name), instance.shape, instance.times);
    }
    const std::vector<int64_t> peaks = peak_in_flight(schedule);
    const bool fits = instance.memory.in_flight.empty() ||
                      *std::max_element(peaks.begin(), peaks.end()) <= instance.memory.in_flight[0];
    if (!fits) continue;
    const SimDuration makespan = makespan_of(schedule, instance.shape, instance.times);
    if (best.name.empty() || makespan < best.makespan) best = {name, makespan};
  }
  return best;
}

int against_others(int n) {
  Random random = Random(1).stream("settings");
  const auto one_of = [&](const auto& values) { return values[random.below(values.size())]; };
  std::vector<double> gains, whole_gains, published_gains, gaps, whole_gaps;
  double seconds = 0;
  for (int i = 0; i < n; ++i) {
    Setting s{};
    s.p = one_of(std::vector<int32_t>{8, 12, 24});
    s.datacenters = 2 + i % 4;
    s.cell = one_of(std::vector<int32_t>{1, 2, 3, 4, 8});
    s.m = s.p * one_of(std::vector<int32_t>{1, 2, 4});
    s.w = one_of(std::vector<double>{0.5, 1, 2, 4, 8});
    s.latency = one_of(std::vector<double>{0, 1, 4, 10});
    s.in_flight = s.p * static_cast<int32_t>(random.below(3));
    const Baseline baseline = best_baseline(s, true);
    const Baseline as_published = best_baseline(s, false);
    const Instance instance = instance_of(s, true);
    const double begin = wall_seconds();
    const Found split = search(instance, true);
    const double took = wall_seconds() - begin;
    const Found whole = search(instance, false);
    seconds += took;
    const auto over = [](SimDuration a, SimDuration b) {
      return static_cast<double>(a.ns) / static_cast<double>(b.ns) - 1;
    };
    gains.push_back(over(baseline.makespan, split.makespan));
    whole_gains.push_back(over(baseline.makespan, whole.makespan));
    published_gains.push_back(over(as_published.makespan, split.makespan));
    gaps.push_back(over(split.makespan, split.bounds.front().value));
    whole_gaps.push_back(over(whole.makespan, whole.bounds.front().value));
    fmt::print(
        "{{\"p\":{},\"datacenters\":{},\"C\":{},\"m\":{},\"w\":{},\"latency\":{},\"in_flight\":{},"
        "\"ours_ms\":{:.2f},\"whole_ms\":{:.2f},\"baseline\":\"{}\",\"baseline_ms\":{:.2f},"
        "\"as_published\":\"{}\",\"as_published_ms\":{:.2f},\"bound_ms\":{:.2f},\"whole_bound_ms\":"
        "{:.2f},\"gain\":{:.3f},\"whole_gain\":{:.3f},"
        "\"gap\":{:.3f},\"whole_gap\":{:.3f},\"s\":{:.2f},\"by\":\"{}\"}}\n",
        s.p, s.datacenters, s.cell, s.m, s.w, s.latency, s.in_flight, split.makespan.ns / 1e6,
        whole.makespan.ns / 1e6, baseline.name, baseline.makespan.ns / 1e6, as_published.name,
        as_published.makespan.ns / 1e6, split.bounds.front().value.ns / 1e6,
        whole.bounds.front().value.ns / 1e6, gains.back(), whole_gains.back(), gaps.back(),
        whole_gaps.back(), took, split.schedule.name);
  }
  const auto median = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  };
  const auto most = [](const std::vector<double>& v) {
    return *std::max_element(v.begin(), v.end());
  };
  fmt::print(
      "{{\"bench\":\"best_schedule table\",\"settings\":{},\"median_gain\":{:.3f},"
      "\"best_gain\":{:.3f},\"as_published_median_gain\":{:.3f},\"as_published_best_gain\":{:.3f},"
      "\"whole_median_gain\":{:.3f},\"whole_best_gain\":{:.3f},"
      "\"median_gap\":{:.3f},\"mean_gap\":{:.4f},\"worst_gap\":{:.3f},\"whole_median_gap\":{:.3f},"
      "\"whole_mean_gap\":{:.4f},\"whole_worst_gap\":{:.3f},\"seconds\":{:.1f}}}\n",
      n, median(gains), most(gains), median(published_gains), most(published_gains),
      median(whole_gains), most(whole_gains), median(gaps), mean(gaps), most(gaps),
      median(whole_gaps), mean(whole_gaps), most(whole_gaps), seconds);
  return 0;
}

int large() {
  const Setting setting{
      .p = 60, .datacenters = 4, .cell = 4, .m = 60, .w = 2, .latency = 4, .in_flight = 60};
  const Instance instance = instance_of(setting, true);
  const double begin = wall_seconds();
  const Found found = search(instance, true);
  const double took = wall_seconds() - begin;
  const Baseline baseline = best_baseline(setting, true);
  fmt::print(
      "{{\"bench\":\"best_schedule large\",\"p\":60,\"m\":60,\"C\":4,\"ours_ms\":{:.2f},"
      "\"baseline\":\"{}\",\"baseline_ms\":{:.2f},\"bound_ms\":{:.2f},\"by\":\"{}\","
      "\"wall_s\":{:.2f}}}\n",
      found.makespan.ns / 1e6, baseline.name, baseline.makespan.ns / 1e6,
      found.bounds.front().value.ns / 1e6, found.schedule.name, took);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const int n = argc > 2 ? std::atoi(argv[2]) : 0;
  if (what == "exact") return against_optimum(n > 0 ? n : 200);
  if (what == "table") return against_others(n > 0 ? n : 60);
  if (what == "large") return large();
  fmt::print(stderr, "best_schedule_bench exact|table|large [N]\n");
  return 2;
}
