// A run of Chakra graphs, as tombolo astra --trace records it: 16 ranks on 4 x 4, two layers of
// computations with roofline, an all-reduce each in four chunks, messages between neighbours.
#pragma once

#include "base/result.h"
#include "spec/trace/trace.h"

namespace tombolo::report {

// Collapsed: one rank stands for all, and no messages.
Result<trace::Trace> sample_graphs(bool collapsed);

}  // namespace tombolo::report
