// The part of a Trace that the page draws: lanes, and the intervals of some iterations.
//
// A page of a long run would be too large to open, so at most kIterationsMax iterations are
// embedded: the first and last ones, where runs differ, and evenly spaced ones between. Of an iteration
// everything is embedded, up to kTimelineBytes: about a million intervals. The page says what was left out,
// and marks where a timeline is cut.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/value.h"
#include "spec/trace/trace.h"

namespace tombolo::report {

inline constexpr size_t kIterationsMax = 60;
inline constexpr size_t kIntervalsMax = 100'000;  // of several iterations together, and of prompts
inline constexpr size_t kTimelineBytes = 14'000'000;  // intervals and names: about 13 bytes each
inline constexpr size_t kPointsMax = 2'000;           // of a curve

// `max` of `count` positions, in order: a third from the start, a third from the end, the rest
// evenly between. All of them where they fit.
std::vector<size_t> spread(size_t count, size_t max);

// Iterations to embed: spread(), with fewer where they hold more than kIntervalsMax intervals.
std::vector<int64_t> chosen_iterations(const trace::Trace& trace);

// What to embed of a Trace that is shown next to another: those of the chosen iterations it has, and,
// if it lacks some, its last one, which then stands for them.
std::vector<int64_t> matching_iterations(const trace::Trace& trace,
                                         const std::vector<int64_t>& chosen);

// {"lanes": [{"kind", "rank", "peer", "label", "detail"}], "actions": ["0F0", "0REDUCE_GRAD", ...],
//  "iterations": [{"iteration", "start_ns", "duration_ns", "rows": ["...", ...]}]}
//
// `rows` has a text for each lane, in their order: four numbers for each of its intervals, in digits of five
// bits, the lowest first, each a character of kDigits; with its sixth bit set another one follows.
//   action    less that of the interval before; signed
//   start     less the end of the interval before, after the start of the iteration, in ns; signed
//   duration  in ns
//   bytes     0: as before; else one more than they are
// Signed numbers n are written as 2n, or -2n - 1 below 0. Before the first interval all are 0.
//
// A rank's part in a collective stands in the lane of its computations; lanes of computations name their
// "device" and "datacenter"; where there are several pipelines, lanes also carry "stage" and "replica", links
// their sender's.
//
// In a run of graphs every rank has a lane for each thing it does, and one for each dimension of
// the network; actions are then {"name", "kind", "chunk"}, where the kind is that of the lane, or
// "chunk", or "message".
//
// Work outside of any iteration (evaluation, checkpoints) is listed with the iteration that started
// last before it. What begins after `bytes_max` are full is left out: the iteration then has "cut_ns", when
// that was, and "intervals_left_out" how many there are. "intervals" is how many are in the page.
Value timeline(const trace::Trace& trace, const std::vector<int64_t>& iterations,
               size_t bytes_max = kTimelineBytes);

inline constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// {"iteration": [...], "duration_ns": [...]}, at most kPointsMax of them.
Value iteration_curve(const trace::Trace& trace);

// {"loss": {"iteration": [...], "value": [...]}, ...} for every record that is finite; where
// several ranks wrote one, the lowest rank's. At most kPointsMax each. Left out are a replica's own
// share of the loss ("replica_loss") and what is about the machine (figures.h).
Value record_curves(const trace::Trace& trace);

// {"changed": 40, "reasons": 37, "newest": [{"iteration", "before", "density", "line_bytes_per_s", "reason"}]} of a
// density that may change, by the lowest rank with that record: how often it did, how many reasons the Trace has,
// and the newest kDecisionsMax of them, the last one last. "before" and the rate may be null. Null without densities.
inline constexpr size_t kDecisionsMax = 1'000;
Value density_decisions(const trace::Trace& trace);

// {"iteration": [...], "each": true, "pipelines": [[...], ...], "changed", "reasons", "newest": [{"iteration", "before",
// "microbatches", "reason"}]} of a batch whose division may change: how many microbatches each pipeline computed, in the
// first iteration, in those of the newest kDecisionsMax changes and in the last; else as above. Above kPipelinesEach
// pipelines "each" is false, and instead of all numbers stand the fewest and the most. Null where the division is fixed.
inline constexpr size_t kPipelinesEach = 16;
Value batch_decisions(const trace::Trace& trace);

}  // namespace tombolo::report
