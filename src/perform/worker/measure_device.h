// Measures what this machine's processor does, by LibTorch if this program was built with it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "spec/plan/device_rates.h"
#include "spec/plan/overlap_samples.h"
#include "spec/plan/plan.h"

namespace tombolo::worker {

// With this many threads, layers of these hidden sizes, for about `budget`. One thread is timed by the CPU time of this
// process, which other processes disturb little, over the part of a core that its control group may use
// (base/cpu_limit.h); several by the clock. Unusable without LibTorch.
Result<plan::DeviceRates> measure_device(int64_t threads, const std::vector<int64_t>& hidden,
                                         Seconds budget);

// Operators of a layer on the shards of rank 0, alone and concurrently (train/measure_overlap.h). Unusable if the rank
// could not be performed.
Result<plan::OverlapSamples> measure_operators(const plan::Plan& plan, Seconds budget,
                                               Clock& clock);

}  // namespace tombolo::worker
