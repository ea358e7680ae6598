// What the ranks of a pipeline must agree on before they train: the data.
//
// The ranks of the first and of the last stage read it, perhaps from copies in two datacenters,
// which had better be equal. Those between them read nothing, and yet must know how many held-out
// batches will pass. So a few bytes go down the pipeline, from the first position to the last.
#pragma once

#include "base/result.h"
#include "perform/runtime/kernels.h"
#include "perform/runtime/messenger.h"
#include "spec/plan/plan.h"

namespace tombolo::runtime {

// Called by all ranks of a Plan, with the same iteration. Does nothing where the Plan names no
// data, or emulated devices in its pipeline read none. Waits for the ranks before this one.
Status agree_on_data(const plan::Plan& plan, int32_t rank, int64_t first_iteration,
                     Kernels& kernels, Messenger& messenger);

}  // namespace tombolo::runtime
