// Links that serve one message at a time, first come, first served.
//
// Law `congestion` (ASTRA-sim: congestion-aware), in any number of dimensions. A message crosses
// one link after another (route.h), and is stored whole before it is forwarded:
//
//   a link is busy for floor(b / bandwidth) with a message of b bytes,
//   which is at the other end floor(latency + b / bandwidth) after the link took it.
//
// Source: Won et al., ASTRA-sim 2.0, 2023, section IV-C; docs/laws/congestion_network.md.
//
// Cost: 16 bytes a link and 4 a message; constant time per hop.
#pragma once

#include <cstdint>
#include <vector>

#include "predict/network/route.h"

namespace tombolo::network {

class LinkQueues {
 public:
  explicit LinkQueues(int64_t links) : links_(static_cast<size_t>(links)) {}

  // True if the link takes the message now, which makes it busy; else the message waits.
  bool offer(int64_t link, int32_t message);
  // The link has sent its message: the next one, which it takes now, or -1 and it is free.
  int32_t release(int64_t link);

 private:
  struct Link {
    int32_t first = -1, last = -1;  // waiting
    bool busy = false;
  };
  std::vector<Link> links_;
  std::vector<int32_t> next_;  // of a waiting message, the one behind it
};

}  // namespace tombolo::network
