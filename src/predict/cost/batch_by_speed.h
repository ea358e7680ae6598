// microbatches_per_replica = "auto": as many for each pipeline as let all end at about the same time.
//
// A pipeline with m microbatches takes round_trip + (m - 1) period by the law `mixed-pipeline`, over the times
// of its own devices and links; the gradient all-reduce after it is the same for all. The rule of the division
// is a run's (steer/tune/batch_division.h).
#pragma once

#include <cstdint>

#include "base/result.h"
#include "predict/cost/mixed_pipeline.h"
#include "spec/plan/hardware.h"
#include "spec/plan/job.h"
#include "spec/plan/plan.h"
#include "steer/tune/batch_division.h"

namespace tombolo::cost {

using tune::divide_by_pace;
using tune::Pace;

// By the costs of the Plan. Chunks of a rank come one after the other, so a position counts with all of them.
Pace pace_of(const plan::Plan& plan, int32_t replica);

// The job with numbers where it says "auto", and as it is where it does not. Where all come out equal
// none are written down. Errors: those of make_plan.
Result<plan::Job> with_batch_by_speed(const plan::Job& job,
                                      const plan::Hardware* hardware = nullptr);

}  // namespace tombolo::cost
