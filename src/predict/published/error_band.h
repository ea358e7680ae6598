// How far the law `tombolo` was off on published runs like a job: the error band of an estimate.
//
// The runs are those of data/reference. Alike are runs on the same kind of device, of the same
// class of model (dense, or a mixture of experts) and of the same family of software stacks
// (StackConstants::family); the law predicts them with the constants of the job's own stack. Where
// there are fewer than eight of them there is no band, and a note names the nearest class of runs.
// Constants were fitted to a part of these runs (docs/laws/tombolo.md), so the band is that of the
// fit, not of the future: a run that differs from all of them may lie outside.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "spec/plan/job.h"

namespace tombolo::published {

// How far the law was off on published runs like the one asked about.
struct ErrorBand {
  Seconds low, high;  // 10th and 90th percentile of measured over predicted, times the estimate
  double mean = 0;    // of absolute relative errors
  int64_t rows = 0;   // of published measurements
  std::string of;     // which: "dense models on a100, stacks megatron-2022, megatron-deepspeed"
};

struct BandOrNote {
  std::optional<ErrorBand> band;
  std::string note;  // why there is none, and what is nearest; empty where there is one
};

// Reads the published runs that the program carries, once: some 20 ms.
Result<BandOrNote> error_band(const plan::Job& job, Seconds iteration);

}  // namespace tombolo::published
