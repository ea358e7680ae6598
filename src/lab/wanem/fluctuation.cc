#include "lab/wanem/fluctuation.h"

#include <cmath>
#include <vector>

#include "base/random.h"

namespace tombolo::wanem {
namespace {

constexpr Seconds kMemory = 20_s;
constexpr double kSpread = 1.5;

BytesPerSecond rate_of(double level) {
  return kStellaTrainMin + (kStellaTrainMax - kStellaTrainMin) / (1 + std::exp(-level));
}

BytesPerSecond mean_rate(const std::vector<double>& x, double centre) {
  BytesPerSecond sum;
  for (const double value : x) sum += rate_of(centre + kSpread * value);
  return sum / static_cast<double>(x.size());
}

// The mean grows with the centre: halve until it is met.
double centre_with_mean(const std::vector<double>& x, BytesPerSecond mean) {
  double low = -50, high = 50;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (mean_rate(x, middle) < mean ? low : high) = middle;
  }
  return low;
}

}  // namespace

Result<cluster::RateTrace> stellatrain_fluctuation(const FluctuationOptions& options) {
  if (!(options.mean >= 60_Mbps && options.mean <= 590_Mbps)) {
    return unusable(
        fmt::format("mean = {}: must lie between 60 and 590 Mbps", format(options.mean)),
        "193 Mbps, or 115.7 Mbps as in the evaluation");
  }
  const double count = std::floor(options.duration / options.step);
  if (!(options.step >= 1_us && count >= 2 && count <= 1e6)) {
    return unusable(
        fmt::format("a trace of {} in steps of {}", format(options.duration), format(options.step)),
        "600 s in steps of 500 ms; up to a million steps");
  }
  Random random = Random(options.seed).stream("stellatrain_fluctuation");
  const double keep = std::exp(-options.step.value / kMemory.value);
  std::vector<double> x{random.normal()};
  while (static_cast<double>(x.size()) < count) {
    x.push_back(keep * x.back() + std::sqrt(1 - keep * keep) * random.normal());
  }
  const double centre = centre_with_mean(x, options.mean);
  std::vector<cluster::RateTrace::Step> steps;
  for (size_t i = 0; i < x.size(); ++i) {
    const double tenths =
        std::round(rate_of(centre + kSpread * x[i]).value / (100_Mbps).value * 1e3);
    steps.push_back({round_to_ns(options.step * static_cast<double>(i)), tenths * 0.1_Mbps});
  }
  return cluster::RateTrace::make(std::move(steps), round_to_ns(options.step * count));
}

}  // namespace tombolo::wanem
