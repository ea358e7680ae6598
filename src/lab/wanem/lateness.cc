#include "lab/wanem/lateness.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace tombolo::wanem {
namespace {

// 0..7 have bins of their own; above, the leading bit and the three after it choose.
size_t bin_of(uint64_t ns) {
  if (ns < 8) return ns;
  const auto exponent = static_cast<unsigned>(std::bit_width(ns)) - 1;
  return (exponent - 2) * 8 + ((ns >> (exponent - 3)) & 7);
}

int64_t last_of_bin(size_t bin) {
  if (bin < 8) return static_cast<int64_t>(bin);
  const unsigned shift = static_cast<unsigned>(bin / 8) - 1;
  return static_cast<int64_t>((uint64_t{8 + bin % 8 + 1} << shift) - 1);
}

}  // namespace

void Lateness::add(SimDuration late) {
  late = std::max(late, SimDuration{});
  ++bins_[std::min(bin_of(static_cast<uint64_t>(late.ns)), bins_.size() - 1)];
  ++count_;
  max_ = std::max(max_, late);
}

SimDuration Lateness::quantile(double q) const {
  CHECK(q >= 0 && q <= 1, "a share of {}", q);
  const double wanted = std::ceil(q * static_cast<double>(count_));
  double seen = 0;
  for (size_t bin = 0; bin < bins_.size(); ++bin) {
    seen += bins_[bin];
    if (bins_[bin] > 0 && seen >= wanted) return std::min(SimDuration{last_of_bin(bin)}, max_);
  }
  return {};
}

}  // namespace tombolo::wanem
