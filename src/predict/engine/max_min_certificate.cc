#include "predict/engine/max_min_certificate.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::engine {

Status check_max_min(std::span<const Flow> flows, std::span<const Link> links,
                     std::span<const BytesPerSecond> rates, double tolerance) {
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
