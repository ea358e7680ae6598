// How many bytes arrived over a link, and for how long any of them were arriving: gives the rate of a link
// that is idle in between. Uses one clock, the receiver's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/time.h"

namespace tombolo::exchange {

class Arrivals {
 public:
  struct Sum {
    int64_t bytes = 0;
    SimDuration in_flight;  // overlapping messages counted once
  };
  // A message, from its first byte to its last. Of messages that overlap, add the one that ended first
  // first. If its beginning is not known (0), it took no time.
  void add(int64_t bytes, SimTime begun, SimTime delivered) {
    sum_.bytes += bytes;
    const SimTime from = std::max(begun.ns > 0 ? begun : delivered, until_);
    if (delivered > from) sum_.in_flight = sum_.in_flight + (delivered - from);
    until_ = std::max(until_, delivered);
  }
  // Since the last call.
  Sum take() { return std::exchange(sum_, {}); }

 private:
  Sum sum_;
  SimTime until_;
};

}  // namespace tombolo::exchange
