// Bubbles: the gaps between the computations of training on each GPU, period by period.
//
// An iteration is a period: what a GPU computes in one, it computes again a period later, at the
// same phase. So the gaps are cyclic, and the last one of an iteration continues in the next.
//
// A GPU is taken while a computation runs and while a pass waits for its own collectives (TP, CP,
// EP, DP): these hold its multiprocessors. It is free while it waits for activations, for gradients
// or for the gradient all-reduce.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "spec/trace/trace.h"

namespace tombolo::prefill {

struct Span {
  SimTime start;
  SimTime end;

  SimDuration length() const { return end - start; }
  bool operator==(const Span&) const = default;
};

// Computations of a period in order, disjoint, not touching, within [0, period).
using Busy = std::vector<Span>;

struct Bubbles {
  SimDuration period;
  std::vector<Busy> busy;  // by rank

  // The share of all ranks' time in which training computes.
  double utilization() const;
};

// Whether a GPU is taken during this interval. Intervals outside of any iteration do not repeat, so
// they do not count.
bool takes_gpu(const trace::Interval& interval);

// The iteration of a Trace that repeats, its first computation, and how long until the next one.
struct Period {
  int64_t iteration = 0;
  SimTime origin;
  SimDuration length;
};

// The last iteration of a Trace that has a next one. The period is the longest time from a
// rank's first computation in the one to that in the next. If all ranks agree on it, the schedule
// is periodic and the windows are exact; else it is the slowest rank's. For a Trace of one iteration
// the period is its length. Unusable: a Trace in which nothing is computed.
Result<Period> period_of(const trace::Trace& trace);

// Spans in any order, mapped into one period; those that cross its end are cut there. CHECKs that
// none begins before `origin` or is longer than the period.
Busy folded(const std::vector<Span>& spans, SimTime origin, SimDuration period);

// Of that iteration, all ranks. Cost: O(n log n) in the intervals. Unusable: as period_of.
Result<Bubbles> bubbles_of(const trace::Trace& trace);

// What `busy` leaves free of a period: starts in [0, period), the last one may end in the next
// period. Of a GPU that never computes, one gap as long as the period.
std::vector<Span> gaps_of(const Busy& busy, SimDuration period);

// How fragmented the idle time of a period is: a schedule that leaves it in one piece can be filled
// better than one that leaves many short gaps (Atlas calls it bubble consolidation).
struct GapLengths {
  int64_t gaps = 0;  // of all ranks, in a period
  double idle_share = 0;
  SimDuration p10, p50, p90, longest;
  // Half of the idle time is in gaps of at least this length.
  SimDuration half_of_idle;
};
GapLengths gap_lengths(const Bubbles& bubbles);

}  // namespace tombolo::prefill
