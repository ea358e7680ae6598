// Links that serve one message at a time, first come, first served.
//
// Law `congestion` (ASTRA-sim: congestion-aware), in any number of dimensions. A message crosses
// one link after another, the lower dimensions first, and is stored whole before it goes on:
//
//   a link is busy for floor(b / bandwidth) with a message of b bytes,
//   which is at the other end floor(latency + b / bandwidth) after the link took it.
//
// Each NPU has, per dimension, a link to both ring neighbours, one to every other NPU, or one to
// the switch and one back. A message that can go either way round a ring goes up. Source: Won et
// al., ASTRA-sim 2.0, 2023, section IV-C; docs/laws/congestion_network.md.
//
// Cost: 16 bytes a link and 4 a message; constant time per hop.
#pragma once

#include <cstdint>
#include <vector>

#include "network/topology.h"

namespace tombolo::network {

class LinkQueues {
 public:
  explicit LinkQueues(const Topology& topology);

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

  // True if the link takes the message now, which makes it busy; else the message waits.
  bool offer(int64_t link, int32_t message);
  // The link has sent its message: the next one, which it takes now, or -1 and it is free.
  int32_t release(int64_t link);

 private:
  struct Link {
    int32_t first = -1, last = -1;  // waiting
    bool busy = false;
  };
  const Topology* topology_;
  std::vector<int64_t> first_link_;  // per dimension
  std::vector<Link> links_;
  std::vector<int32_t> next_;  // of a waiting message, the one behind it
};

}  // namespace tombolo::network
