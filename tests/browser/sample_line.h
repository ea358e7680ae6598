// A made-up run over a line whose rate changes, for looking at its page.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "spec/trace/trace.h"

namespace tombolo {

// Two pipelines in two datacenters, and a density that follows the line: the simulator's Trace, called "emulated", with a loss
// and fresh shares that nobody computed. It decides more often than a page lists. `tells`: why.
Result<trace::Trace> sample_line(int64_t iterations, bool tells);

// Four pipelines, one of them on a device half as fast, that begin with equal parts of the batch: the simulator's Trace.
Result<trace::Trace> sample_batch(int64_t iterations);

}  // namespace tombolo
