#include "base/time.h"

#include <cmath>

#include "base/check.h"

namespace tombolo {

SimDuration round_to_ns(Seconds s) {
  const double ns = s.value * 1e9;
  CHECK(std::abs(ns) < 9.2e18, "{} s does not fit into 64 bits of nanoseconds", s.value);
  return {std::llround(ns)};
}

}  // namespace tombolo
