#include "predict/network/group_layout.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::network {

std::optional<GroupLayout> lay_out(std::span<const int32_t> ranks, const Topology& topology) {
  CHECK(!ranks.empty(), "a group without ranks");
  GroupLayout out;
  int64_t product = 1;
  for (size_t d = 0; d < topology.dimensions(); ++d) {
    std::vector<int32_t> places;
    for (const int32_t rank : ranks) {
      CHECK(rank >= 0 && rank < topology.npus(), "rank {} of {} NPUs", rank, topology.npus());
      const int32_t place = topology.coordinate(rank, d);
      if (places.empty() || places.back() != place) places.push_back(place);
    }
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    if (places.size() == 1) continue;
    product *= std::ssize(places);
    GroupSpan span{d, {}, static_cast<int32_t>(places.size())};
    if (span.members < topology.size(d)) {
      for (const int32_t place : places) span.places.push_back(place - places[0]);
    }
    out.push_back(std::move(span));
  }
  // Distinct ranks within a product of their number are all of it.
  if (product != std::ssize(ranks)) return std::nullopt;
  return out;
}

bool alike(const GroupSpan& span, const Topology& topology) {
  if (topology.dimension(span.dimension).block != Block::kRing || span.places.empty()) return true;
  const int32_t size = topology.size(span.dimension);
  if (size % span.members != 0) return false;
  for (int32_t m = 0; m < span.members; ++m) {
    if (span.places[static_cast<size_t>(m)] != m * (size / span.members)) return false;
  }
  return true;
}

}  // namespace tombolo::network
