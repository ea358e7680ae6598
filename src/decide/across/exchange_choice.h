// [exchange] mode = "auto": dense, sparse, local or sparse local, whichever is predicted to reach a loss first.
//
// With the job's own layout each setting of exchange_grid() is simulated, and its iteration taken times the
// steps that the mode needs (steps_factor.h): the comparison of `tombolo plan --across`, of one layout. Of
// settings within kTie the cheaper is taken. With a convergence_profile, of sparse updates the steps are those
// that were measured of the job's own model. Chosen before a Plan is made; a run that is resumed with
// changed links is chosen for again.
//
// Cost: a simulation of each setting, of local ones of tens of iterations.
#pragma once

#include "base/result.h"
#include "spec/plan/hardware.h"
#include "spec/plan/job.h"

namespace tombolo::across {

// The job with a mode where it says "auto", and the reason among its notes; as it is where it does not.
// 0 threads: as many as the machine has; their number changes nothing.
// Unusable: no [model], whose size the steps depend on. Otherwise, if no setting fits, the error of dense.
Result<plan::Job> with_exchange_chosen(plan::Job job, const plan::Hardware* hardware = nullptr,
                                       int threads = 0);

}  // namespace tombolo::across
