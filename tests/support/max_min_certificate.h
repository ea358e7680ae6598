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

#include <algorithm>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "predict/engine/fair_share.h"

namespace tombolo::engine {

// Infeasible, naming a flow or a link: the rates are not the max-min fair ones. CHECKs that there
// are as many rates as flows.
inline Status check_max_min(std::span<const Flow> flows, std::span<const Link> links,
                            std::span<const BytesPerSecond> rates, double tolerance = 1e-9) {
  CHECK(flows.size() == rates.size(), "{} rates for {} flows", rates.size(), flows.size());
  std::vector<double> load(links.size());
  std::vector<double> best_level(links.size());  // the largest rate / weight on the link
  for (size_t i = 0; i < flows.size(); ++i) {
    const double rate = rates[i].value;
    if (!(rate >= 0)) return infeasible(fmt::format("flow {} has {} B/s, below 0", i, rate));
    if (rate > flows[i].cap.value * (1 + tolerance)) {
      return infeasible(
          fmt::format("flow {} has {} B/s, above its cap of {} B/s", i, rate, flows[i].cap.value));
    }
    for (size_t l = 0; l < flows[i].links.size(); ++l) {
      const uint32_t link = flows[i].links[l];
      load[link] += rate * flows[i].share_on(l);
      best_level[link] = std::max(best_level[link], rate / flows[i].weight);
    }
  }
  for (size_t l = 0; l < links.size(); ++l) {
    if (load[l] > links[l].capacity.value * (1 + tolerance)) {
      return infeasible(fmt::format("link {} carries {} B/s and has {} B/s", l, load[l],
                                    links[l].capacity.value));
    }
  }
  for (size_t i = 0; i < flows.size(); ++i) {
    const double level = rates[i].value / flows[i].weight;
    bool held = rates[i].value >= flows[i].cap.value * (1 - tolerance);
    for (const uint32_t link : flows[i].links) {
      const bool full = load[link] >= links[link].capacity.value * (1 - tolerance);
      held = held || (full && level >= best_level[link] * (1 - tolerance));
    }
    if (!held) {
      return infeasible(fmt::format("flow {} has {} B/s, is not at its cap and has no bottleneck",
                                    i, rates[i].value));
    }
  }
  return {};
}

}  // namespace tombolo::engine
