// From a job to a Plan whose stages have times and memory.
//
// plan::lay_out says which layers run where; this says how long each stage takes there and in what
// memory, and is the one place that does. Times, in this order: what [stage_times] says, what the
// hardware file measured, the law `tombolo`, and where a device has no constants (CPUs) the law
// `roofline`. Memory is that of the law `device memory` for the job's stack, whatever the source of
// the times.
//
// Estimates in closed form, searches, the simulator and sweeps combine these prices and make none
// of their own. With `tombolo` a pass of a stage includes what the stack leaves exposed of the
// collectives inside, and the gradient all-reduce counts with its exposed part. Otherwise the
// all-reduce takes what the law `ring-all-reduce` says, over the slowest hop of the ring; of
// replicas in several datacenters, what the law `gradient-exchange` says of it alone, which
// simulations do not ask for.
#pragma once

#include <optional>

#include "base/result.h"
#include "spec/plan/hardware.h"
#include "spec/plan/job.h"
#include "spec/plan/plan.h"

namespace tombolo::cost {

// Unusable: a hardware file that was measured for another job; experts that cannot be divided; what
// plan::lay_out and the laws refuse.
Result<plan::Plan> make_plan(const plan::Job& job, const plan::Hardware* hardware = nullptr);

// Operations of the model over what its devices could do in an iteration of this length: model
// FLOPs utilisation. Nothing where the stages' times are imagined ([stage_times]).
std::optional<double> mfu_of(const plan::Plan& plan, Seconds iteration);

}  // namespace tombolo::cost
