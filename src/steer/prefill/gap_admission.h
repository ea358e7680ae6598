// Whether a rank that answers prompts in its gaps takes one more: the controller of prefill
// (prefill_controller.h) with one GPU, whose windows are as late as training is just now.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "steer/prefill/durations.h"
#include "steer/prefill/rank_windows.h"

namespace tombolo::prefill {

// When the last of these passes would be over: each has so many tokens and runs all `layers` once,
// one pass behind the other, in the windows from `now` on. Nothing: one of them would not be over
// within `within` of its turn, or the last not within `within` of now. CHECKs that the windows are
// known (RankWindows::period_begin) and the table is long enough.
//
// Cost: O(passes + windows until then) beside what a controller takes to be made.
std::optional<SimTime> end_of_passes(const RankWindows& windows, const DurationTable& times,
                                     int64_t layers, const std::vector<int64_t>& passes,
                                     SimDuration within, SimTime now);

}  // namespace tombolo::prefill
