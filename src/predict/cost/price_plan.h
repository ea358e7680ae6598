// From a job to a Plan whose stages have times.
//
// plan::lay_out says which layers run where; this says how long each stage takes there: what
// [stage_times] says, else what the hardware file measured, else the law `roofline`. The sum of
// gradients takes what the law `ring-all-reduce` says, over the slowest hop of the ring.
#pragma once

#include "base/result.h"
#include "spec/plan/hardware.h"
#include "spec/plan/job.h"
#include "spec/plan/plan.h"

namespace tombolo::cost {

// Unusable: a hardware file that was measured for another job; what plan::lay_out refuses.
Result<plan::Plan> make_plan(const plan::Job& job, const plan::Hardware* hardware = nullptr);

}  // namespace tombolo::cost
