#include "predict/network/route.h"

#include "base/check.h"

namespace tombolo::network {

Routes::Routes(const Topology& topology) : topology_(&topology) {
  int64_t links = 0;
  for (size_t d = 0; d < topology.dimensions(); ++d) {
    first_link_.push_back(links);
    const int64_t size = topology.size(d);
    switch (topology.dimension(d).block) {
      case Block::kRing:
      case Block::kSwitch:
        links += int64_t{topology.npus()} * 2;
        break;
      case Block::kFullyConnected:
        links += topology.npus() * size;
        break;
      case Block::kWan:
        links += size * size;
        break;
    }
  }
  first_link_.push_back(links);
}

Routes::Hop Routes::next_hop(Place at, int32_t to) const {
  const Topology& net = *topology_;
  const size_t d = net.first_difference(at.npu, to);
  const int32_t here = net.coordinate(at.npu, d);
  const int32_t there = net.coordinate(to, d);
  const auto along = [&](int32_t coordinate) {
    return at.npu + (coordinate - here) * net.stride(d);
  };
  const int64_t first = first_link_[d];
  const int64_t size = net.size(d);
  switch (net.dimension(d).block) {
    case Block::kRing: {
      const int32_t n = net.size(d);
      const int32_t up = (there - here + n) % n;
      const bool down = n - up < up;
      return {first + at.npu * int64_t{2} + (down ? 1 : 0),
              d,
              {along((here + (down ? n - 1 : 1)) % n), false}};
    }
    case Block::kFullyConnected:
      return {first + at.npu * size + there, d, {along(there), false}};
    case Block::kSwitch:
      if (!at.at_switch) return {first + at.npu * int64_t{2}, d, {at.npu, true}};
      return {first + along(there) * int64_t{2} + 1, d, {along(there), false}};
    case Block::kWan:
      return {first + here * size + there, d, {along(there), false}};
  }
  CHECK(false, "block {}", static_cast<int>(net.dimension(d).block));
}

}  // namespace tombolo::network
