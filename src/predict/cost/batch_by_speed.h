// microbatches_per_replica = "auto": as many for each pipeline as let all end at about the same time.
//
// A pipeline with m microbatches takes round_trip + (m - 1) period by the law `mixed-pipeline`, over the times
// of its own devices and links; the sum of gradients behind it is the same for all. The division is the
// best one: no microbatch moved from one pipeline to another ends the slowest of them earlier.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "predict/cost/mixed_pipeline.h"
#include "spec/plan/hardware.h"
#include "spec/plan/job.h"
#include "spec/plan/plan.h"

namespace tombolo::cost {

// Of one pipeline.
struct Pace {
  Seconds first;  // one microbatch there and back
  Seconds next;   // each further one
};

// By the costs of the Plan. Chunks of a rank come one after the other, so a position counts with all of them.
Pace pace_of(const plan::Plan& plan, int32_t replica);

// So many microbatches among these pipelines, at least one each. CHECKs that there are as many.
// Cost: a hundred passes over the pipelines.
std::vector<int64_t> divide_by_pace(std::span<const Pace> paces, int64_t microbatches);

// The job with numbers where it says "auto", and as it is where it does not. Where all come out equal
// none are written down. Errors: those of make_plan.
Result<plan::Job> with_batch_by_speed(const plan::Job& job,
                                      const plan::Hardware* hardware = nullptr);

}  // namespace tombolo::cost
