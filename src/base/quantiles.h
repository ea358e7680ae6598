// Median and quantiles of a sample, in any order. An empty sample has none: callers check first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/check.h"
#include "base/time.h"

namespace tombolo {

// Of an even number of values the mean of the two in the middle.
double median(std::vector<double> values);
SimDuration median(std::vector<SimDuration> values);  // that mean rounded down to a nanosecond

// Between order statistics by linear interpolation: type 7 of Hyndman and Fan, Sample quantiles in
// statistical packages, The American Statistician 50(4), 1996; what NumPy and R take by default.
double quantile(std::vector<double> values, double share);

// Of an even number of values the upper of the two in the middle: a value that occurred. O(n).
template <typename T>
T median_high(std::vector<T> values) {
  CHECK(!values.empty(), "a median of nothing");
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace tombolo
