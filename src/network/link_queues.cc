#include "network/link_queues.h"

#include "base/check.h"

namespace tombolo::network {

LinkQueues::LinkQueues(const Topology& topology) : topology_(&topology) {
  int64_t links = 0;
  for (size_t d = 0; d < topology.dimensions(); ++d) {
    first_link_.push_back(links);
    const bool full = topology.dimension(d).block == Block::kFullyConnected;
    links += int64_t{topology.npus()} * (full ? topology.size(d) : 2);
  }
  links_.resize(static_cast<size_t>(links));
}

LinkQueues::Hop LinkQueues::next_hop(Place at, int32_t to) const {
  const Topology& net = *topology_;
  const size_t d = net.first_difference(at.npu, to);
  const int32_t here = net.coordinate(at.npu, d);
  const int32_t there = net.coordinate(to, d);
  const auto along = [&](int32_t coordinate) {
    return at.npu + (coordinate - here) * net.stride(d);
  };
  const int64_t first = first_link_[d];
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
      return {first + at.npu * int64_t{net.size(d)} + there, d, {along(there), false}};
    case Block::kSwitch:
      if (!at.at_switch) return {first + at.npu * int64_t{2}, d, {at.npu, true}};
      return {first + along(there) * int64_t{2} + 1, d, {along(there), false}};
  }
  CHECK(false, "block {}", static_cast<int>(net.dimension(d).block));
}

bool LinkQueues::offer(int64_t link, int32_t message) {
  Link& l = links_[static_cast<size_t>(link)];
  if (!l.busy) {
    l.busy = true;
    return true;
  }
  const auto m = static_cast<size_t>(message);
  if (m >= next_.size()) next_.resize(m + 1 + m / 2);
  next_[m] = -1;
  (l.first < 0 ? l.first : next_[static_cast<size_t>(l.last)]) = message;
  l.last = message;
  return false;
}

int32_t LinkQueues::release(int64_t link) {
  Link& l = links_[static_cast<size_t>(link)];
  const int32_t message = l.first;
  if (message < 0) {
    l.busy = false;
  } else {
    l.first = next_[static_cast<size_t>(message)];
  }
  return message;
}

}  // namespace tombolo::network
