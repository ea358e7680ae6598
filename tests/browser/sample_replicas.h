// Made-up Traces of 4 stages in three datacenters, for looking at their page.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "spec/trace/trace.h"

namespace tombolo {

// A prediction of one iteration, and "emulated" ones: the simulator again, with seeded noise on
// every computation and one slow rank, so that the others wait for it. Records say how busy the
// machine would have been.
Result<std::vector<trace::Trace>> sample_replicas(int iterations, int32_t pipelines = 3);

}  // namespace tombolo
