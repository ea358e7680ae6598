// A WAN bandwidth that fluctuates as StellaTrain's authors measured it, synthesised from their
// figures.
//
// Their trace between two CloudLab clusters is not published. Stated are its range, 50 to 600 Mbps,
// its mean, 193 Mbps, and the mean in their evaluation, 115.7 Mbps; step, shape and length are not.
// Ours: x is a Gauss-Markov process with a memory of 20 s, and the rate 50 + 550 / (1 + exp(-(c +
// 1.5 x))) Mbps, which stays within the range and dwells nearer its lower end, as the means demand;
// c is solved so that the trace has the mean. docs/laws/bandwidth_fluctuation.md.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/units.h"
#include "spec/cluster/rate_trace.h"

namespace tombolo::wanem {

inline constexpr BytesPerSecond kStellaTrainMin = 50_Mbps;
inline constexpr BytesPerSecond kStellaTrainMax = 600_Mbps;
inline constexpr BytesPerSecond kStellaTrainMean = 193_Mbps;              // section 2.1
inline constexpr BytesPerSecond kStellaTrainEvaluationMean = 115.7_Mbps;  // section 5

struct FluctuationOptions {
  uint64_t seed = 1;
  BytesPerSecond mean = kStellaTrainMean;  // between 60 and 590 Mbps
  Seconds duration = 600_s;                // of one period; up to a million steps
  Seconds step = 500_ms;                   // between changes
};

// Rates are whole multiples of 0.1 Mbps, so the mean is met within 0.05 Mbps and the same seed
// gives the same bytes wherever exp and log agree to twelve digits.
Result<cluster::RateTrace> stellatrain_fluctuation(const FluctuationOptions& options);

}  // namespace tombolo::wanem
