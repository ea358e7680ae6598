// Which links a message crosses from NPU to NPU.
//
// One dimension after the other, the lower ones first; along a ring the shorter way, upwards where
// both are as short; over a switch, up to it and down from it. Each NPU has, per dimension, a link
// to both ring neighbours, one to every other NPU, or one to the switch and one back, in each
// direction its own. Between datacenters (block WAN) there is one path per ordered pair, shared by
// all their NPUs. The laws `congestion` (link_queues.h) and `fluid` follow it.
#pragma once

#include <cstdint>
#include <vector>

#include "predict/network/topology.h"

namespace tombolo::network {

class Routes {
 public:
  explicit Routes(const Topology& topology);  // which must outlive the routes

  // Where a message is: at an NPU, or at the switch that it reached from there.
  struct Place {
    int32_t npu = 0;
    bool at_switch = false;
    bool operator==(const Place&) const = default;
  };
  struct Hop {
    int64_t link = 0;
    size_t dimension = 0;
    Place end;
  };
  // The next hop of a message from `at` to NPU `to`; CHECKs that it is not there yet.
  Hop next_hop(Place at, int32_t to) const;

  int64_t links() const { return first_link_.back(); }
  // Those of a dimension are numbered from here, up to those of the next.
  int64_t first_link(size_t dimension) const { return first_link_[dimension]; }

 private:
  const Topology* topology_;
  std::vector<int64_t> first_link_;  // per dimension, and how many there are
};

}  // namespace tombolo::network
