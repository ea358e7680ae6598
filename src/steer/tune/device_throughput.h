// How fast a device trains, by the size of its batch: StellaTrain's equation 2.
//
//   f(x) = min(beta / alpha x, beta)          samples per second
//   x / f(x) = max(x, alpha) / beta           seconds of a batch
//
// So a batch below alpha takes as long as one of alpha samples. The fit is that of the paper's
// controller: by Nelder and Mead, on what devices report while they train.
//
// Source: Lim et al. 2024, Accelerating Model Training in Multi-cluster Environments with
// Consumer-grade GPUs, sections 4.1 and 4.2. docs/laws/tuning.md.
#pragma once

#include <optional>
#include <span>

#include "base/result.h"
#include "base/units.h"

namespace tombolo::tune {

struct DeviceThroughput {
  double saturation = 1;  // alpha: the smallest batch that keeps the device busy
  double peak = 1;        // beta: samples per second from there on

  double samples_per_second(double batch) const;
  Seconds time(double batch) const;
};

struct ThroughputSample {
  double batch = 0;
  Seconds time;  // of its iteration, without waiting
};

// Fits both numbers: least squares of the logarithms of predicted over sampled times. What samples
// do not determine stays as in `before`: batches above saturation do not show where it begins, and
// those below it show alpha / beta only. Without `before`: saturation at the smallest batch seen.
// Unusable: no sample, or one that is not positive and finite.
//
// Cost: O(samples) for each of some thousand evaluations.
Result<DeviceThroughput> fit_throughput(std::span<const ThroughputSample> samples,
                                        std::optional<DeviceThroughput> before = {});

}  // namespace tombolo::tune
