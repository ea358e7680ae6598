#include "engine/fair_share.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::engine {
namespace {

void check(const Flow& flow, std::span<const Link> links) {
  CHECK(flow.weight > 0 && flow.weight < kUnlimited.value, "weight {}", flow.weight);
  CHECK(flow.cap.value >= 0, "cap of {} B/s", flow.cap.value);
  CHECK(!flow.links.empty() || flow.cap < kUnlimited, "a flow without links needs a cap");
  for (const uint32_t link : flow.links) {
    CHECK(link < links.size(), "link {} of {}", link, links.size());
    CHECK(links[link].capacity.value >= 0, "link {} has {} B/s", link, links[link].capacity.value);
  }
}

}  // namespace

std::vector<BytesPerSecond> fair_shares(std::span<const Flow> flows, std::span<const Link> links) {
  for (const Flow& flow : flows) check(flow, links);
  std::vector<BytesPerSecond> rates(flows.size());
  std::vector<double> left(links.size());     // capacity not yet given away for good
  std::vector<double> growing(links.size());  // weight of the flows that still grow
  for (size_t i = 0; i < links.size(); ++i) left[i] = links[i].capacity.value;
  std::vector<uint32_t> active(flows.size());
  for (uint32_t i = 0; i < flows.size(); ++i) active[i] = i;

  double level = 0;  // rate / weight of every flow that still grows
  while (!active.empty()) {
    std::fill(growing.begin(), growing.end(), 0.0);
    for (const uint32_t i : active) {
      for (const uint32_t link : flows[i].links) growing[link] += flows[i].weight;
    }
    // How far a flow may rise: to its cap, or to where its tightest link is full.
    const auto limit_of = [&](const Flow& flow) {
      double limit = flow.cap.value / flow.weight;
      for (const uint32_t link : flow.links) limit = std::min(limit, left[link] / growing[link]);
      return limit;
    };
    double next = kUnlimited.value;
    for (const uint32_t i : active) next = std::min(next, limit_of(flows[i]));
    level = std::max(level, next);  // a link may look overfull by a rounding error

    // Whoever cannot rise further stops here. All limits are taken before any flow is settled.
    std::vector<uint32_t> stopped;
    std::vector<uint32_t> rising;
    for (const uint32_t i : active) (limit_of(flows[i]) <= level ? stopped : rising).push_back(i);
    for (const uint32_t i : stopped) {
      const Flow& flow = flows[i];
      const bool capped = flow.cap.value / flow.weight <= level;  // then the cap, to the last bit
      const double rate = capped ? flow.cap.value : level * flow.weight;
      rates[i] = {rate};
      for (const uint32_t link : flow.links) left[link] = std::max(0.0, left[link] - rate);
    }
    active = std::move(rising);
  }
  return rates;
}

}  // namespace tombolo::engine
