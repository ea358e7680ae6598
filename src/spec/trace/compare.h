// Compare: how far a prediction was from what happened.
//
// Relative errors are (predicted - measured) / measured: positive where the prediction was too
// slow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "spec/trace/trace.h"

namespace tombolo::trace {

struct ComparisonOptions {
  std::optional<int64_t> warmup;  // first iterations of the measured trace to leave out: warmup_of
  bool allow_different_plans = false;  // compare what was planned differently all the same
};

// Warm-up: how many first iterations pay for caches, memory and the links' slow start, and count in no
// mean. One for a performed run that has others left; none for a prediction. Every mean over the
// iterations of a Trace asks here.
int64_t warmup_of(const Trace& trace);
// The same for a performed run with this many iterations. With `overlap` an iteration has a length only if
// another one follows, because it ends where the next one begins.
int64_t warmup_of(size_t iterations, bool overlap);
// The other iterations: all after the first `warmup` (left out: warmup_of).
std::vector<IterationTime> warm_iterations(const Trace& trace, std::optional<int64_t> warmup = {});

// All intervals of one kind of action, at one stage or at all: how many there were per side, and
// their mean durations, over all replicas. A mean or an error is absent where a side has none (or
// takes no time). A gradient all-reduce counts from each rank's arrival: its mean includes the
// waiting.
struct KindComparison {
  std::string kind;    // "F", "B", "R", "REDUCE_GRAD", "U", "SEND_F", "SEND_B"
  int32_t stage = -1;  // of the action (of the sender, on links); -1: all stages
  int64_t predicted_count = 0;
  int64_t measured_count = 0;
  std::optional<Seconds> predicted_mean;
  std::optional<Seconds> measured_mean;
  std::optional<double> relative_error;
};

struct Comparison {
  SimDuration predicted_iteration;  // medians
  SimDuration measured_iteration;
  double iteration_error = 0;  // relative
  int64_t predicted_iterations = 0;
  int64_t measured_iterations = 0;        // without the warm-up
  int64_t warmup = 0;                     // measured iterations that were left out
  std::vector<KindComparison> per_kind;   // in the order of ActionKind
  std::vector<KindComparison> per_stage;  // by stage, then kind
};

// Unusable where a trace has no iterations (left), or the two were made from Plans that divide
// other work: those differ in structure_digest. Plans that differ in expected durations, seed or
// number of steps are compared: that is what predictions with and without a profile are for.
Result<Comparison> compare(const Trace& predicted, const Trace& measured,
                           const ComparisonOptions& options = {});

// What two Traces' Plans say differently. Empty where they have one Plan, and where one of them
// carries none.
struct PlanDifference {
  std::string key;        // "stages[2].cost.forward"
  std::string predicted;  // as JSON, cut short; empty: it is not there
  std::string measured;
};
std::vector<PlanDifference> plan_differences(const Header& predicted, const Header& measured);

// The first few of them, a line: "run.steps 4 and 10, run.seed 1 and 2, and 3 more".
std::string brief(const std::vector<PlanDifference>& differences);

// Digest of those parts of the header's Plan that say what is done where: model, cluster, training,
// parallelism and the ranks' places. The plan_digest where the header carries no Plan.
std::string structure_digest(const Header& header);

}  // namespace tombolo::trace
