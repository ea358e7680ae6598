// When one rank of a run may compute something else: the gaps of its Plan, against what its training
// really does.
//
// The Plan's prediction says which computation follows which, and when (RankPlan, made where the
// prediction is). The rank reports what begins and what ends; a thread that waits for a message asks
// until when there is time. Three answers:
//
//   a gap is predicted       until the next computation, less the guard
//   training is expected     now: nothing more is begun, so that it finds the rank free
//   nothing is predicted     before the first computation, and if training is late by more than
//                            1/kPatience of a period: an evaluation, a peer that hangs, another
//                            machine than predicted
//
// One thread. Cost of a call: O(log computations of an iteration).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "spec/action/action.h"
#include "spec/trace/trace.h"
#include "steer/prefill/training_tracker.h"

namespace tombolo::prefill {

// From its first part to its last: between two parts a pass waits for its parameters, and nothing
// else is begun. Times count from the start of the period; the end may lie in the next one.
struct PlannedComputation {
  action::Action action;
  SimTime start;
  SimTime end;

  bool operator==(const PlannedComputation&) const = default;
};

struct RankPlan {
  SimDuration period;
  std::vector<PlannedComputation> computations;  // in order of start

  bool operator==(const RankPlan&) const = default;
};

// Of every rank of a predicted Trace: the iteration that period_of() chooses. Unusable: as there.
Result<std::vector<RankPlan>> rank_plans(const trace::Trace& trace);

// The same cut into one period, for placement (bubble_windows.h).
Busy busy_of(const RankPlan& plan);

class RankWindows {
 public:
  static constexpr int64_t kPatience = 50;  // parts of a period

  // `guard`: until it is learned. CHECKs that something is computed.
  RankWindows(RankPlan plan, SimDuration guard);

  // Iterations count on. Actions that the Plan does not order are ignored.
  void begins(int64_t iteration, const action::Action& action, SimTime at);
  void ends(int64_t iteration, const action::Action& action, SimTime at);
  // The message that the next computation needs had arrived this long before any thread looked: that
  // computation could have begun that much earlier.
  void held(SimDuration by) { held_ = held_ + by; }

  // Until when a layer that begins now may run; not after `now`: none may. Nothing: no prediction.
  std::optional<SimTime> until(SimTime now) const;

  SimDuration guard() const { return tracker_ ? tracker_->guard() : guard_; }
  const RankPlan& plan() const { return plan_; }
  // When the current period began, shifted by how late its training is: for placement. Nothing before
  // the first computation.
  std::optional<SimTime> period_begin() const;

 private:
  struct Place {
    size_t span = 0;  // which of the tracker's computations: those that touch are one
    bool first = false, last = false;
  };
  const Place* find(const action::Action& action) const;
  void find_places();

  RankPlan plan_;
  SimDuration guard_;
  Busy spans_;
  std::map<action::Action, Place> places_;
  std::optional<TrainingTracker> tracker_;  // from the first computation on
  int64_t first_iteration_ = 0, iteration_ = 0;
  SimTime origin_;
  SimTime last_signal_;
  SimDuration held_;
};

}  // namespace tombolo::prefill
