// Which part of a pass is computation and which is communication inside it, and when gradient
// all-reduces that overlap with passes begin: defined once, for the simulator's Trace and for the
// runtime's.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "spec/plan/plan.h"
#include "spec/schedule/schedule.h"
#include "spec/trace/trace.h"

namespace tombolo::schedule {

// What a pass of this kind communicates inside; null: passes that communicate nothing.
const plan::PassCommunication* communication_of(const plan::StageCost& cost,
                                                action::ActionKind kind);

// What a pass does, one after the other: it computes, and then communicates, kind by kind.
struct PassShares {
  SimDuration computes;
  std::vector<std::pair<action::ActionKind, SimDuration>> communicates;
};
// Of a pass of this duration.
PassShares shares_of(const plan::PassCommunication& inside, SimDuration pass);

// Cuts a pass, or a part of one that began `before` into it, into its computation and the communication
// that follows, to the nanosecond.
void add_pass(const PassShares& shares, SimDuration before, const trace::Interval& pass,
              std::vector<trace::Interval>& intervals);

// When the gradient all-reduces begin on a rank whose replicas lie in one datacenter, so that
// `reduce_hidden` is hidden behind the last computations: the first one begins `after` later than the
// computation at `place` in the order does. Nothing where no part is hidden: it then begins when all
// computations have ended.
struct SumsBegin {
  size_t place = 0;
  SimDuration after;
  bool operator==(const SumsBegin&) const = default;
};
std::optional<SumsBegin> sums_begin(const plan::Plan& plan, int32_t rank, const RankActions& order);

}  // namespace tombolo::schedule
