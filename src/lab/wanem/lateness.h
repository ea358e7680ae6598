// How late deliveries were: a histogram with a fixed size and a relative error.
//
// Eight bins per power of two, so a quantile is at most an eighth above the true one. Adding costs
// a few instructions and never allocates.
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"

namespace tombolo::wanem {

class Lateness {
 public:
  void add(SimDuration late);  // negative counts as 0
  uint64_t count() const { return count_; }
  SimDuration max() const { return max_; }
  // The upper end of the bin in which the share q of all lies; 0 where there is none. At most
  // max().
  SimDuration quantile(double q) const;

 private:
  std::array<uint32_t, 61 * 8> bins_{};
  uint64_t count_ = 0;
  SimDuration max_;
};

}  // namespace tombolo::wanem
