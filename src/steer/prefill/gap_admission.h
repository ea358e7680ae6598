// Whether a rank that answers prompts in its gaps takes one more: the controller of prefill
// (prefill_controller.h) with one GPU, whose windows are as late as training is just now.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "steer/prefill/durations.h"
#include "steer/prefill/rank_windows.h"

namespace tombolo::prefill {

// When the last of these passes would end. `passes`: the tokens of each; each runs all `layers`
// once, one pass after the other, in the windows from `now` on. Nothing: one of them would not end
// within `within` of its turn, or the last not within `within` of now. CHECKs that the windows are
// known (RankWindows::period_begin) and the table is long enough.
//
// Cost: O(passes + windows until then), plus making a controller.
std::optional<SimTime> end_of_passes(const RankWindows& windows, const DurationTable& times,
                                     int64_t layers, const std::vector<int64_t>& passes,
                                     SimDuration within, SimTime now);

}  // namespace tombolo::prefill
