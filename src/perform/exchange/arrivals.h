// What came over a line, and for how long some of it was coming: the rate of a line that is idle in between.
// Knows one clock, the receiver's.
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
  // A message, from its first byte to its last; of messages that overlap the one that ended first is added
  // first. Where it is not known when it began (0), it took no time.
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
