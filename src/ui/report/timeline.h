// The part of a Trace that the page draws: lanes, and the intervals of some iterations.
//
// A page of a long run would be too large to open, so at most kIterationsMax iterations are
// embedded: the first and last ones, where runs differ, and evenly spaced ones between. The page
// says how many were left out.
#pragma once

#include <cstdint>
#include <vector>

#include "base/value.h"
#include "spec/trace/trace.h"

namespace tombolo::report {

inline constexpr size_t kIterationsMax = 60;
inline constexpr size_t kIntervalsMax = 100'000;  // about 35 bytes each in the page
inline constexpr size_t kPointsMax = 2'000;       // of a curve

// `max` of `count` positions, in order: a third from the start, a third from the end, the rest
// evenly between. All of them where they fit.
std::vector<size_t> spread(size_t count, size_t max);

// Iterations to embed: spread(), with fewer where they hold more than kIntervalsMax intervals.
std::vector<int64_t> chosen_iterations(const trace::Trace& trace);

// What to embed of a Trace that is laid beside another: those of the chosen iterations it has, and,
// where it lacks some, its last one, which then stands for them.
std::vector<int64_t> matching_iterations(const trace::Trace& trace,
                                         const std::vector<int64_t>& chosen);

// {"lanes": [{"kind", "rank", "peer", "label", "detail"}], "actions": ["0F0", "0REDUCE_GRAD", ...],
//  "iterations": [{"iteration", "start_ns", "duration_ns", "rows": [...]}]}
//
// `rows` is flat, five integers per interval: lane, action, start after the start of the iteration,
// duration (both ns), bytes. A rank's part in a collective stands in the lane of its computations;
// where there are several pipelines, lanes also carry "stage" and "replica", links their sender's.
//
// In a run of graphs every rank has a lane for each thing it does, and one for each dimension of
// the network; actions are then {"name", "kind", "chunk"}, where the kind is that of the lane, or
// "chunk", or "message".
//
// Work outside of any iteration (evaluation, checkpoints) is listed with the iteration that started
// last before it. One enormous iteration is cut after kIntervalsMax, and "intervals_left_out" says
// so.
Value timeline(const trace::Trace& trace, const std::vector<int64_t>& iterations);

// {"iteration": [...], "duration_ns": [...]}, at most kPointsMax of them.
Value iteration_curve(const trace::Trace& trace);

// {"loss": {"iteration": [...], "value": [...]}, ...} for every record that is finite; where
// several ranks wrote one, the lowest rank's. At most kPointsMax each. Left out are a replica's own
// share of the loss ("replica_loss") and what is about the machine (figures.h).
Value record_curves(const trace::Trace& trace);

}  // namespace tombolo::report
