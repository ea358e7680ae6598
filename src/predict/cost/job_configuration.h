// A job as the laws see it: one configuration on one datacenter.
#pragma once

#include "base/result.h"
#include "predict/cost/configuration.h"
#include "predict/cost/iteration.h"
#include "spec/plan/job.h"

namespace tombolo::cost {

// Unusable: an order of parallelism that cannot be read.
Result<Configuration> configuration_of(const plan::Job& job);

LawSettings settings_of(const plan::Training& training);

// What no law can price: a batch that cannot be divided, fewer layers than stages, experts that
// cannot be divided.
Status check_divisions(const plan::Job& job);

}  // namespace tombolo::cost
