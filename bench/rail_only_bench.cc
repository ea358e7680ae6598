// How many configurations can a search price per core-second with the law `rail-only`?
//
//   rail_only_bench
//
// GPT-1T on 4,096 H100: every tensor x pipeline x data with all interleavings and microbatches
// that divide evenly, time and memory of each. Prints one JSON line with the median and the spread
// (max - min) of the repeats, by CPU time of this thread.
//
// Sketch: some 30 divisions at 4 ns are 120 ns, 8 million per second. Checked: every
// repeat finds the same best configuration, no faster than all operations at peak, and its time is
// the sum of its parts.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/check.h"
#include "predict/cost/rail_only.h"

using namespace tombolo;
using namespace tombolo::cost;

namespace {

constexpr int kRepeats = 7;
constexpr int kPasses = 200;
constexpr int64_t kDevices = 4096, kDomain = 8, kBatch = 4096;

struct Search {
  int64_t evaluated = 0, fitting = 0;
  Seconds best{1e9};
  RailOnlySplit split;
};

void search(const RailOnlyModel& model, const RailOnlyMachine& machine, Search& found) {
  for (int64_t t = 1; t <= 64; t *= 2) {
    for (int64_t p = 1; p <= model.layers && t * p <= kDevices; ++p) {
      if (kDevices % (t * p) != 0 || model.layers % p != 0) continue;
      const int64_t d = kDevices / (t * p);
      RailOnlySplit split{.global_batch = kBatch};
      int64_t left = kDomain;
      split.tensor = take_from_domain(t, left);
      split.data = take_from_domain(d, left);
      split.pipeline = take_from_domain(p, left);
      for (int64_t v = 1; v <= model.layers / p; ++v) {
        if ((model.layers / p) % v != 0) continue;
        for (int64_t b = 1; b <= kBatch / d; b *= 2) {
          split.virtual_stages = v;
          split.micro_batch = b;
          ++found.evaluated;
          const Seconds time = rail_only(model, machine, split).total();
          const Bytes memory = rail_only_memory(model, split).total();
          if (memory > 80_GB) continue;
          ++found.fitting;
          if (time < found.best) {
            found.best = time;
            found.split = split;
          }
        }
      }
    }
  }
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

int main() {
  const model::Model gpt = *model::preset("gpt-1t");
  const RailOnlyModel model{.layers = gpt.layers,
                            .hidden = gpt.hidden,
                            .heads = gpt.heads,
                            .sequence = gpt.sequence,
                            .vocabulary = gpt.vocabulary,
                            .parameters = static_cast<double>(parameters(gpt))};
  const RailOnlyMachine machine{.peak = 989_TFLOPS,
                                .domain_bandwidth = 900_GBps,
                                .network_bandwidth = 50_GBps,
                                .domain_latency = 1_us,
                                .network_latency = 5_us};
  std::vector<double> rates;
  Search first;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    Search found;
    const double begin = cpu_seconds();
    for (int pass = 0; pass < kPasses; ++pass) search(model, machine, found);
    rates.push_back(static_cast<double>(found.evaluated) / (cpu_seconds() - begin));
    if (repeat == 0) first = found;
    CHECK(found.best == first.best && found.evaluated == first.evaluated, "repeats differ");
  }
  const RailOnlyTime time = rail_only(model, machine, first.split);
  CHECK(time.total() == first.best, "{} s is not the sum of its parts", first.best.value);
  const Flops work = rail_only_flops(model, kBatch).hardware;
  CHECK(first.best > work / (machine.peak * static_cast<double>(kDevices)), "faster than peak");

  std::sort(rates.begin(), rates.end());
  fmt::print(
      "{{\"bench\": \"rail_only\", \"configurations\": {}, \"fitting\": {}, \"best_s\": {:.4f}, "
      "\"per_core_second\": {:.4g}, \"spread\": {:.3g}}}\n",
      first.evaluated / kPasses, first.fitting / kPasses, first.best.value, rates[rates.size() / 2],
      rates.back() - rates.front());
  return 0;
}
