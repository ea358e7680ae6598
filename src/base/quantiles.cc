#include "base/quantiles.h"

#include <cmath>

namespace tombolo {

double median(std::vector<double> values) {
  CHECK(!values.empty(), "a median of nothing");
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

SimDuration median(std::vector<SimDuration> values) {
  CHECK(!values.empty(), "a median of nothing");
  std::sort(values.begin(), values.end());
  const SimDuration lower = values[(values.size() - 1) / 2], upper = values[values.size() / 2];
  return {lower.ns + (upper.ns - lower.ns) / 2};
}

double quantile(std::vector<double> values, double share) {
  CHECK(!values.empty() && share >= 0 && share <= 1, "quantile {} of {} values", share,
        values.size());
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - std::floor(place)) * (values[above] - values[below]);
}

}  // namespace tombolo
