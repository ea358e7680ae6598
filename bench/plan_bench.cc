// How fast is the search of `tombolo plan`?
//
//   plan_bench [THREADS]
//
// 1. Configurations per core-second, memory and time of each computed, nothing pruned, one thread:
//    GPT-1T on 4,096 H100, by both laws. Seconds of CPU time.
// 2. The whole search with its pruning, THREADS threads (left out: 2): GPT-1T on 4,096 and 65,536
//    H100, law `tombolo`; wall-clock and CPU seconds.
//
// Sketch: law rail-only takes about 0.15 us for memory and time, law tombolo 3 us; the loop around
// them 0.05 us. So 5 million and 300 thousand per second, and 20 million configurations in a
// minute. Checked: repeats find the same best; with and without pruning it is the same; it is no
// faster than all operations at peak. One JSON line each.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/check.h"
#include "decide/search/search.h"
#include "decide/search/space.h"
#include "predict/cost/iteration.h"

using namespace tombolo;
using namespace tombolo::search;

namespace {

constexpr int kRepeats = 3;

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

plan::OpenJob gpt_1t(int64_t devices, int64_t global_batch) {
  plan::OpenJob open;
  open.job.name = "gpt-1t";
  open.job.file = "gpt-1t";
  open.job.model = *model::preset("gpt-1t");
  cluster::Datacenter datacenter;
  datacenter.name = "one";
  datacenter.device = *cluster::catalog_device("h100-80g");
  datacenter.devices_per_node = 8;
  datacenter.nodes = devices / 8;
  datacenter.scale_up = {.domain = 8, .bandwidth = 450_GBps};
  datacenter.scale_out = {.bandwidth = 50_GBps};
  open.job.cluster.datacenters = {datacenter};
  open.job.training.global_batch = global_batch;
  open.job.training.stack = "megatron";
  return open;
}

SearchOptions options_for(const plan::OpenJob& open, bool prune, int threads) {
  return {.top = 5,
          .threads = threads,
          .prune = prune,
          .memory = open.job.cluster.datacenters[0].device.memory};
}

// Returns the best, for comparison.
Candidate rate(const plan::OpenJob& open, cost::Law law) {
  const SearchSpace space = *make_space(open, law, {});
  const std::unique_ptr<Pricer> pricer = *make_pricer(open.job, law);
  SearchOptions options = options_for(open, false, 1);
  options.families = false;
  std::vector<double> rates;
  SearchResult first;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    int64_t evaluated = 0;
    const double begin = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    while (evaluated == 0 || seconds_of(CLOCK_THREAD_CPUTIME_ID) < begin + 1) {
      const SearchResult found = tombolo::search::search(space, *pricer, options);
      if (first.top.empty()) first = found;
      CHECK(!found.top.empty() && found.top[0].configuration == first.top[0].configuration &&
                found.counts.evaluated == first.counts.covered,
            "repeats differ");
      evaluated += found.counts.evaluated;
    }
    rates.push_back(static_cast<double>(evaluated) / (seconds_of(CLOCK_THREAD_CPUTIME_ID) - begin));
  }
  std::sort(rates.begin(), rates.end());
  fmt::print(
      "{{\"bench\": \"plan_rate\", \"law\": \"{}\", \"devices\": 4096, \"configurations\": {}, "
      "\"fitting\": {}, \"best_s\": {:.4f}, \"per_core_second\": {:.4g}, \"spread\": {:.3g}}}\n",
      to_name(law), first.counts.evaluated, first.counts.feasible, first.top[0].time.value,
      rates[rates.size() / 2], rates.back() - rates.front());
  return first.top[0];
}

Candidate whole(const plan::OpenJob& open, int threads) {
  const SearchSpace space = *make_space(open, cost::Law::kTombolo, {});
  const std::unique_ptr<Pricer> pricer = *make_pricer(open.job, cost::Law::kTombolo);
  const double wall = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  const SearchResult found =
      tombolo::search::search(space, *pricer, options_for(open, true, threads));
  CHECK(!found.top.empty(), "nothing fits");
  const auto devices = static_cast<double>(open.job.cluster.devices());
  const Flops work = cost::model_flops(*open.job.model, open.job.training.global_batch);
  CHECK(found.top[0].time > work / (open.job.cluster.datacenters[0].device.peak * devices),
        "faster than peak");
  fmt::print(
      "{{\"bench\": \"plan_whole\", \"law\": \"tombolo\", \"devices\": {}, \"threads\": {}, "
      "\"configurations\": {}, \"evaluated\": {}, \"over_memory\": {}, \"pruned_by_memory\": {}, "
      "\"pruned_by_bound\": {}, \"best_s\": {:.4f}, \"wall_s\": {:.2f}, \"cpu_s\": {:.2f}}}\n",
      open.job.cluster.devices(), threads, found.counts.covered, found.counts.evaluated,
      found.counts.over_memory, found.counts.pruned_by_memory, found.counts.pruned_by_bound,
      found.top[0].time.value, seconds_of(CLOCK_MONOTONIC) - wall,
      seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
  return found.top[0];
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2;
  const plan::OpenJob small = gpt_1t(4096, 4096), large = gpt_1t(65536, 16384);
  rate(small, cost::Law::kRailOnly);
  const Candidate unpruned = rate(small, cost::Law::kTombolo);
  CHECK(whole(small, threads).configuration == unpruned.configuration, "pruning lost the best");
  whole(large, threads);
  return 0;
}
