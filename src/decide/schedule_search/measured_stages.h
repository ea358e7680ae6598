// How long the stages of a job really take, from a Trace of it: what a schedule is found for again
// when a device turns out slower than planned.
//
// Per rank, the median over micro-batches and iterations of its forwards, of its backwards (whole,
// or in halves) and of its recomputations; where a rank holds several stages, their sum. Of the
// replicas of a position the slowest counts, for all of them wait for it.
#pragma once

#include "base/result.h"
#include "decide/schedule_search/schedule_variant.h"
#include "spec/trace/trace.h"

namespace tombolo::schedule_search {

// `planned` with its passes replaced by what the Trace saw; updates and sums of gradients stay.
// Unusable: another number of positions, or one without a forward or a backward. A recomputation
// that the last position was not seen doing takes as long per forward as the one before's.
Result<PositionWork> measured_work(const trace::Trace& trace, const PositionWork& planned);

// The position whose passes grew most over what was planned, and how many times.
struct Straggler {
  size_t position = 0;
  double factor = 1;
};
Straggler slowest(const PositionWork& measured, const PositionWork& planned);

}  // namespace tombolo::schedule_search
