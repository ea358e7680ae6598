// A certificate that an allocation is the weighted max-min fair one, whoever computed it.
//
// Theorem (Bertsekas & Gallager, Data Networks, 2nd ed., section 6.5.2; with weights and caps). An
// allocation is weighted max-min fair if and only if
//   it is feasible: no rate is below 0 or above its flow's cap, no link carries more than it has;
//   every flow is at its cap or has a bottleneck: a link that is full and on which no other flow
//     has a larger rate / weight.
// If: what a flow gains on its bottleneck it takes from a flow that is no better off. Only if: a
// flow with neither can be raised a little at the expense of better-off flows alone. There is
// exactly one such allocation, so that whatever passes is the answer. A flow that names a link
// twice loads it twice; the theorem stays the same.
//
// The check shares no code with fair_shares() and costs one look at each link of each flow, hence
// it serves as its oracle at any size. `tolerance` is relative, for the rounding of sums.
#pragma once

#include <span>

#include "base/result.h"
#include "predict/engine/fair_share.h"

namespace tombolo::engine {

// Infeasible, naming a flow or a link: the rates are not the max-min fair ones. CHECKs that there
// are as many rates as flows.
Status check_max_min(std::span<const Flow> flows, std::span<const Link> links,
                     std::span<const BytesPerSecond> rates, double tolerance = 1e-9);

}  // namespace tombolo::engine
