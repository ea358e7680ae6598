// The best schedule for a Plan: every published policy and every family that can be searched, under
// the same memory on the same devices, the fastest one taken.
//
//   const BestSchedule best = TRY(best_schedule(plan, {}));
//   best.plan                     performs the winner: simulate and train take it as it is
//   best.winner(), best.baseline()
//
// Candidates are every published schedule that build() knows by name (interleaved with 2 to 8 stages
// per rank), and near-optimal schedules (near_optimal.h) on lines, folds and loops; on lines with
// pipelines separate (spatial) and in DP-cells of every size that divides `data`, whose pipelines
// share the WAN in time. All keep to the memory, counted in microbatches of a whole stage, and to
// the same work per position (schedule_variant.h). Where it is known how long co-executed passes
// take, w and dualpipev are also tried with their pairs co-executed, and improved (pair_search.h).
//
// All feasible candidates are simulated, and the simulated time alone decides which is first: it
// accounts for flows that share a link and for gradient all-reduces. A schedule's own clock
// (schedule::makespan_of) has every pipeline alone on its links, and may be several times shorter.
// Searches minimise that clock, and it is reported next to the simulated time. With [stage_times] and
// no gradient all-reduce both agree exactly.
//
// The baseline is the published schedule that simulates shortest. Varuna as published takes in as
// many microbatches as come; where memory does not hold them, it is also played within the memory:
// a candidate that no paper offers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "decide/schedule_proof/bounds.h"
#include "decide/schedule_proof/exact.h"
#include "decide/schedule_search/schedule_variant.h"
#include "spec/plan/layer_pair.h"

namespace tombolo::schedule_search {

struct BestScheduleOptions {
  bool split_backward = true;  // whether gradients of inputs and of weights may be apart
  int threads = 0;             // 0: all
  // That all searches play together, and as much work again for improving what they find: the
  // work is bounded, not the time. Loops, which are not improved, come on top.
  int64_t passes_max = 8'000'000;
  // How long a layer's forward and backward take when co-executed, for folded schedules with pairs;
  // left out: pairs are tried only if the Plan itself has them.
  std::optional<plan::LayerPair> layer_pair = {};
  // What is performed today, under the times of the Plan: a candidate like the others.
  std::optional<plan::Plan> incumbent = {};
};

struct ScheduleCandidate {
  std::string name;    // "interleaved, 2 stages per rank", "atlas, released, cells of 4"
  std::string family;  // "interleaved"; of what was searched "line", "fold" or "loop"
  ScheduleVariant variant;
  bool is_published = false;  // as published, no variant of ours; the baseline is the best such
  bool splits = false;        // backwards into I and W
  bool pairs = false;         // a forward and a backward are co-executed
  std::string obstacle;       // why it cannot be taken, with numbers; empty: it can
  // Where it can be laid out; in microbatches of a whole stage, on the tightest rank.
  std::optional<double> in_flight;
  // Where it can be taken: by its own clock, alone on its links, and simulated. Both or none.
  std::optional<SimDuration> makespan;
  std::optional<SimDuration> iteration;
};

struct BestSchedule {
  plan::Plan plan;                               // of the winner
  std::vector<ScheduleCandidate> candidates;     // by simulated time, then the impossible
  std::optional<size_t> baseline_index;          // the best published one; left out: none fits
  std::optional<size_t> unsplit_index;           // the best that does not split backwards
  std::optional<size_t> unsplit_baseline_index;  // the best published one that does not
  std::optional<size_t> incumbent_index;
  schedule_proof::LowerBound bound;  // of any schedule with the winner's layout, sharing and memory
  std::vector<std::string> why;      // the winner rather than the baseline, a line each

  const ScheduleCandidate& winner() const { return candidates.front(); }
  const ScheduleCandidate* baseline() const { return at(baseline_index); }
  const ScheduleCandidate* unsplit() const { return at(unsplit_index); }
  const ScheduleCandidate* unsplit_baseline() const { return at(unsplit_baseline_index); }
  SimDuration iteration() const { return *winner().iteration; }

 private:
  const ScheduleCandidate* at(std::optional<size_t> index) const {
    return index ? &candidates[*index] : nullptr;
  }
};

// What the shortest schedule takes that has the winner's layout, sharing and memory, by looking at
// all there are (exact.h); its makespan compares with the winner's. `split_backward` as in the
// options of the search. Unusable: more backwards than kExactBackwardsMax. Cost: most instances of
// 100 backwards take less than a second; after nodes_max guesses it gives up, unproven.
Result<schedule_proof::Exact> prove(const BestSchedule& best, bool split_backward,
                                    int64_t nodes_max = 200'000);

// Which part of `then` is saved where it takes `now`: 0.25 where 4 s become 3 s.
double time_saved(SimDuration now, SimDuration then);

// Infeasible where memory holds no microbatch somewhere: the message names the position and the
// numbers. Cost: some 300 ns x passes_max, and a simulation of every candidate, by all threads.
Result<BestSchedule> best_schedule(const plan::Plan& plan, const BestScheduleOptions& options);

}  // namespace tombolo::schedule_search
