// The best schedule for a Plan: every published policy and every family that can be searched, under
// the same memory on the same devices, the fastest one taken.
//
//   const BestSchedule best = TRY(best_schedule(plan, {}));
//   best.plan                     performs the winner: simulate and train take it as it is
//   best.winner(), best.baseline()
//
// Tried are gpipe, 1f1b, interleaved with 2 to 8 stages per rank, varuna, zb-h1, zb-v, w, dualpipev
// and atlas by name, and near-optimal schedules (near_optimal.h) on lines, folds and loops; on
// lines each pipeline by itself (spatial) and in DP-cells of every size that divides `data`, whose
// pipelines share the WAN in time. All keep to the memory, counted in micro-batches of a whole
// stage, and to the same work per position (schedule_variant.h).
//
// The baseline is the best of gpipe, 1f1b, interleaved and varuna, each pipeline by itself over the
// same links. Varuna as published takes in as many micro-batches as come; where memory does not
// hold them, it is played within the memory, which makes the baseline harder to beat.
//
// Makespans come from schedule::makespan_of. What wins, what is second to it in kind and the
// baseline are simulated as well, and the simulated time decides: it knows about flows that meet
// and about sums of gradients. With [stage_times] and no sum of gradients both agree exactly.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "decide/schedule_proof/bounds.h"
#include "decide/schedule_proof/exact.h"
#include "decide/schedule_search/schedule_variant.h"

namespace tombolo::schedule_search {

struct BestScheduleOptions {
  bool split_backward = true;  // whether gradients of inputs and of weights may be apart
  int threads = 0;             // 0: all
  // That all searches play together, and as much work again for improving what they find: the
  // work is bounded, not the time. Loops, which are not improved, come on top.
  int64_t passes_max = 8'000'000;
  // What is performed today, under the times of the Plan: a candidate like the others.
  std::optional<plan::Plan> incumbent = {};
};

struct ScheduleCandidate {
  std::string name;    // "interleaved, 2 stages per rank", "atlas, released, cells of 4"
  std::string family;  // "interleaved"; of what was searched "line", "fold" or "loop"
  ScheduleVariant variant;
  bool is_baseline = false;  // belongs to those that the best is held against
  bool is_named = false;     // what its name alone stands for, as published
  bool splits = false;       // backwards into I and W
  std::string obstacle;      // why it cannot be taken, with numbers; empty: it can
  // Where it can be laid out; in micro-batches of a whole stage, on the tightest rank.
  std::optional<double> in_flight;
  std::optional<SimDuration> makespan;   // of computations, where it can be taken
  std::optional<SimDuration> iteration;  // simulated: of the finalists
};

struct BestSchedule {
  plan::Plan plan;                            // of the winner
  std::vector<ScheduleCandidate> candidates;  // the winner, then by makespan, then the impossible
  std::optional<size_t> baseline_index;       // left out: none fits
  std::optional<size_t> published_index;      // the best baseline as published, if one fits
  std::optional<size_t> unsplit_index;        // the best that does not split; may be the winner
  std::optional<size_t> incumbent_index;
  schedule_proof::LowerBound bound;  // of any schedule with the winner's layout, sharing and memory
  std::vector<std::string> why;      // the winner rather than the baseline, a line each

  const ScheduleCandidate& winner() const { return candidates.front(); }
  const ScheduleCandidate* baseline() const {
    return baseline_index ? &candidates[*baseline_index] : nullptr;
  }
  const ScheduleCandidate* published() const {
    return published_index ? &candidates[*published_index] : nullptr;
  }
  const ScheduleCandidate* unsplit() const {
    return unsplit_index ? &candidates[*unsplit_index] : nullptr;
  }
  SimDuration iteration() const { return *winner().iteration; }
};

// What the shortest schedule takes that has the winner's layout, sharing and memory, by looking at
// all there are (exact.h); its makespan compares with the winner's. `split_backward` as in the
// options of the search. Unusable: more backwards than kExactBackwardsMax. Cost: most instances of
// 100 backwards take less than a second; after nodes_max guesses it gives up, unproven.
Result<schedule_proof::Exact> prove(const BestSchedule& best, bool split_backward,
                                    int64_t nodes_max = 200'000);

// Which part of `then` is saved where it takes `now`: 0.25 where 4 s become 3 s.
double time_saved(SimDuration now, SimDuration then);

// Infeasible where memory holds no micro-batch somewhere: the message names the position and the
// numbers. Cost: some 300 ns x passes_max, and five simulations.
Result<BestSchedule> best_schedule(const plan::Plan& plan, const BestScheduleOptions& options);

}  // namespace tombolo::schedule_search
