// How long does it take to place a prompt in the bubbles?
//
//   prefill_bench
//
// BubbleTea states 100 us for 12 GPUs and 200 us for 1,000 GPUs in 50 DP-cells. Here: the same two,
// pipelines of one GPU and of eight or nine, training that computes 45 % of a period of 2.3 s in 48
// pieces, prompts of 1 to 7,437 tokens whose layers take 2.5 us a token. Rates from a hundredth of
// what the bubbles hold to twice as much, where most prompts are refused after every pipeline was
// tried. Prints one JSON line each: CPU time per submit(), queue and windows included. Sketch: a
// pipeline is some 8 stages of a few windows at 5 ns.
// Checked: placements add up (check_placements).
#include <fmt/format.h>
#include <time.h>

#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/quantiles.h"
#include "base/random.h"
#include "steer/prefill/placement_check.h"

using namespace tombolo;
using namespace tombolo::prefill;

namespace {

constexpr int64_t kPeriod = 2'300'000'000;

// Forwards, then backwards with recomputation, later stages later: as of a pipeline over a WAN.
Busy busy_of(int64_t stage, int64_t stages) {
  Busy busy;
  int64_t at = 20'000'000 * stage;
  for (int i = 0; i < 16; ++i, at += 43'000'000) busy.push_back({{at}, {at + 16'000'000}});
  at += 30'000'000 * (stages - stage);
  for (int i = 0; i < 16; ++i, at += 68'000'000) {
    busy.push_back({{at}, {at + 16'000'000}});
    busy.push_back({{at + 17'000'000}, {at + 49'000'000}});
  }
  CHECK(busy.back().end.ns <= kPeriod, "a period of {} ns", busy.back().end.ns);
  return busy;
}

PrefillSetting setting_of(int64_t cells, int64_t gpus_per_cell, int64_t depth) {
  PrefillSetting s;
  s.period = {kPeriod};
  for (int64_t g = 0; g < cells * gpus_per_cell; ++g) {
    s.busy.push_back(busy_of(g % gpus_per_cell % 4, 4));
  }
  for (int64_t place = 0; place < gpus_per_cell; ++place) {
    const int64_t pipelines = cells / depth;
    for (int64_t p = 0; p < pipelines; ++p) {
      PrefillPipeline pipeline;
      const int64_t begin = p * cells / pipelines, end = (p + 1) * cells / pipelines;
      for (int64_t cell = begin; cell < end; ++cell) {
        const int64_t i = cell - begin, all = end - begin;
        pipeline.stages.push_back({static_cast<int32_t>(cell * gpus_per_cell + place),
                                   (i + 1) * 32 / all - i * 32 / all});
      }
      s.pipelines.push_back(std::move(pipeline));
    }
  }
  s.tables.push_back(*DurationTable::make({{1, 1_ms, 1_ms, 50_us}, {8192, 20.5_ms, 1_ms, 700_us}}));
  s.lines = {{{100_Gbps, 5_us}}};
  s.kv_per_token_and_layer = 4096_B;
  s.within = {2'000'000'000};
  s.guard = {1'000'000};
  return s;
}

// About the lengths of the code trace: median 1,469, 90th percentile 5,186.
int64_t tokens_of(Random& random) {
  return std::clamp<int64_t>(static_cast<int64_t>(1469 * std::exp(random.normal())), 1, 7437);
}

double cpu_microseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

void measure(int64_t cells, int64_t gpus_per_cell, int64_t depth, double load) {
  const PrefillSetting setting = setting_of(cells, gpus_per_cell, depth);
  PrefillController controller(setting);
  Random random(1);
  // 2,100 tokens on average are 32 layers of 5 ms: what a GPU's bubbles hold is 55 % of its time.
  const double rate = load * real(cells * gpus_per_cell) * 0.55 / (32 * 5e-3);
  constexpr int kPrompts = 20'000;
  std::vector<double> microseconds;
  std::vector<PlacedPrompt> placed;
  double now = 0;
  for (int64_t id = 0; id < kPrompts; ++id) {
    now += -std::log(1 - random.uniform()) / rate;
    const SimTime at{static_cast<int64_t>(now * 1e9)};
    const PrefillRequest request{.id = id, .arrival = at, .tokens = tokens_of(random)};
    const double begin = cpu_microseconds();
    Admission answer = controller.submit(request, at);
    microseconds.push_back(cpu_microseconds() - begin);
    if (answer.verdict == Verdict::kPlaced) placed.push_back({request, answer.placement});
  }
  const Status sound = check_placements(setting, placed);
  CHECK(sound, "{}", sound.error().text());
  fmt::print(
      "{{\"bench\": \"prefill\", \"gpus\": {}, \"cells\": {}, \"pipelines\": {}, \"load\": {}, "
      "\"placed\": {:.3f}, \"p50_us\": {:.2f}, \"p99_us\": {:.2f}, \"max_us\": {:.1f}}}\n",
      cells * gpus_per_cell, cells, setting.pipelines.size(), load,
      real(std::ssize(placed)) / kPrompts, quantile(microseconds, 0.5),
      quantile(microseconds, 0.99), quantile(microseconds, 1));
}

}  // namespace

int main() {
  for (const double load : {0.01, 0.3, 0.9, 2.0}) {
    measure(1, 12, 1, load);
    measure(50, 20, 8, load);
  }
  return 0;
}
