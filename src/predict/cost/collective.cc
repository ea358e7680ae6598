#include "predict/cost/collective.h"

#include "base/check.h"

namespace tombolo::cost {

Seconds ring_all_reduce(const AllReduce& what) {
  CHECK(what.ranks >= 1, "an all-reduce of {} ranks", what.ranks);
  if (what.ranks == 1) return 0_s;
  CHECK(what.rate.value > 0, "{} ranks pass on {} B/s", what.ranks, what.rate.value);
  const auto n = static_cast<double>(what.ranks);
  return 2 * (n - 1) * (what.latency + what.size / (n * what.rate));
}

}  // namespace tombolo::cost
