// How far the law `tombolo` was off on published runs like a job: the error band of an estimate.
//
// The runs are those of data/reference. Alike are runs of the same stack on the same generation of
// devices; where those are fewer than eight, of the same stack, else on the same devices, else all.
// Mixtures of experts and dense models are kept apart as long as eight runs are left. Constants
// were fitted to a part of these runs (docs/laws/tombolo.md), so the band is that of the fit, not
// of the future: a run that differs from all of them may lie outside.
#pragma once

#include <string>

#include "base/result.h"
#include "spec/plan/job.h"

namespace tombolo::published {

// How far the law was off on published runs like the one asked about.
struct ErrorBand {
  Seconds low, high;  // 10th and 90th percentile of measured over predicted, times the estimate
  double mean = 0;    // of absolute relative errors
  int64_t rows = 0;   // of published measurements
  std::string of;     // which: "stack megatron on a100"
};

// Reads the published runs that the program carries, once: some 20 ms.
Result<ErrorBand> error_band(const plan::Job& job, Seconds iteration);

}  // namespace tombolo::published
