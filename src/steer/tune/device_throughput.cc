#include "steer/tune/device_throughput.h"

#include <algorithm>
#include <cmath>

#include "steer/tune/nelder_mead.h"

namespace tombolo::tune {
namespace {

// How much a deviation from what was known counts against one from a sample: decides only where
// samples do not.
constexpr double kPullBack = 1e-6;

bool positive(double value) { return std::isfinite(value) && value > 0; }

double square(double x) { return x * x; }

}  // namespace

double DeviceThroughput::samples_per_second(double batch) const {
  return std::min(peak / saturation * batch, peak);
}

Seconds DeviceThroughput::time(double batch) const {
  return Seconds{std::max(batch, saturation) / peak};
}

Result<DeviceThroughput> fit_throughput(std::span<const ThroughputSample> samples,
                                        std::optional<DeviceThroughput> before) {
  if (samples.empty()) return unusable("no samples of a device's batches", "report at least one");
  for (size_t i = 0; i < samples.size(); ++i) {
    const ThroughputSample& sample = samples[i];
    if (!positive(sample.batch) || !positive(sample.time.value)) {
      return unusable(fmt::format("sample {} of a device: a batch of {} in {} s", i, sample.batch,
                                  sample.time.value),
                      "both must be positive and finite");
    }
  }
  if (before && (!positive(before->saturation) || !positive(before->peak))) {
    return unusable(fmt::format("a device's throughput before: saturation {}, peak {}",
                                before->saturation, before->peak),
                    "both must be positive and finite");
  }
  double batch_low = samples[0].batch, batch_high = batch_low, rate_low = kInfinity, rate_high = 0;
  for (const ThroughputSample& sample : samples) {
    batch_low = std::min(batch_low, sample.batch);
    batch_high = std::max(batch_high, sample.batch);
    rate_low = std::min(rate_low, sample.batch / sample.time.value);
    rate_high = std::max(rate_high, sample.batch / sample.time.value);
  }
  const DeviceThroughput known = before.value_or(DeviceThroughput{batch_low, rate_high});
  // Logarithms: both span orders of magnitude.
  const double known_at[] = {std::log(known.saturation), std::log(known.peak)};
  const auto error = [&](std::span<const double> at) {
    double sum = kPullBack * (square(at[0] - known_at[0]) + square(at[1] - known_at[1]));
    for (const ThroughputSample& sample : samples) {
      sum += square(std::max(std::log(sample.batch), at[0]) - at[1] - std::log(sample.time.value));
    }
    return sum;
  };
  // Room for what lies outside of the samples: a factor of 16 beyond them, and what was known.
  const double room = std::log(16.0);
  const SimplexOptions box{.low = {std::min(std::log(batch_low), known_at[0]) - room,
                                   std::min(std::log(rate_low), known_at[1]) - room},
                           .high = {std::max(std::log(batch_high), known_at[0]) + room,
                                    std::max(std::log(rate_high), known_at[1]) + room}};
  // Each batch is a kink of the error, so that there are several local leasts.
  std::vector<double> saturations = {known.saturation};
  for (const ThroughputSample& sample : samples) saturations.push_back(sample.batch);
  std::sort(saturations.begin(), saturations.end());
  saturations.erase(std::unique(saturations.begin(), saturations.end()), saturations.end());
  constexpr size_t kStartsMax = 16;
  const size_t step = (saturations.size() + kStartsMax - 1) / kStartsMax;
  Minimum best{{known_at[0], known_at[1]}, error(known_at)};
  for (size_t i = 0; i < saturations.size(); i += step) {
    const Minimum found = nelder_mead(error, {std::log(saturations[i]), std::log(rate_high)}, box);
    if (found.value < best.value) best = found;
  }
  return DeviceThroughput{std::exp(best.at[0]), std::exp(best.at[1])};
}

}  // namespace tombolo::tune
