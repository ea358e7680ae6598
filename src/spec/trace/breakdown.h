// Breakdown: where the time of an iteration goes, per rank, and what the links carried.
//
// An iteration lasts from its first start to its last end over all ranks (iteration_times). Each rank
// spends that span computing, waiting while a link from or to it is busy or while it is in a
// collective (exposed communication), or idle; the three add up to the span exactly. Only intervals
// of the iteration itself count, or, where iterations overlap, whatever falls into the span. A link
// is busy from the first byte leaving to the last byte being there: latency counts. A collective
// lasts from the rank's arrival, so waiting for the other ranks counts, too. Of a graph's nodes,
// those on the host count as computing, and transfers from memory as communication; exposed.h divides
// more finely. Layers of prompts (PROMPT) belong to no iteration: they change none of the three. How
// much of the waiting and of the idle time they took is given separately.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/units.h"
#include "spec/trace/trace.h"

namespace tombolo::trace {

struct Parts {
  SimDuration compute;
  SimDuration exposed_communication;
  SimDuration idle;

  SimDuration total() const { return compute + exposed_communication + idle; }
  Parts& operator+=(const Parts& other);
  bool operator==(const Parts&) const = default;
};

struct RankParts {
  int64_t iteration = 0;
  int32_t rank = 0;
  Parts parts;
  SimDuration exposed_exchange;  // of the exposed: while gradients of the rank's stages are summed
  // For prompts, in what training left: of the exposed and of the idle time.
  SimDuration prompts_exposed;
  SimDuration prompts_idle;
  SimDuration prompts() const { return prompts_exposed + prompts_idle; }
};

// All bytes from one datacenter to another, over the span of all iterations.
struct WanUse {
  std::string from;
  std::string to;
  int64_t messages = 0;
  int64_t bytes = 0;
  Bytes bytes_per_iteration;  // the mean, of whole cycles where iterations have them
  SimDuration busy;           // while at least one message is under way
  double busy_fraction = 0;   // of the span
  BytesPerSecond rate;        // bytes over the span
};

struct Breakdown {
  std::vector<RankParts> rows;  // by iteration, then rank in the Trace
  Parts sum;                    // over all ranks and iterations
  // Of a rank in an iteration, the mean: computing nothing while gradients of its stages are summed.
  SimDuration exposed_exchange;
  double utilization = 0;               // compute / total of the sum; 0 for an empty trace
  double utilization_with_prompts = 0;  // what is computed for prompts as well
  std::vector<WanUse> wan;              // by (from, to); needs the header's rank labels
};

// Ranks are those of the header and those with intervals. One that stands for others (RankLabel) has one
// row and counts for all of them in what is of all ranks. Cost: O(n log n) in the intervals.
Breakdown breakdown(const Trace& trace);

// Half-open spans of time as a set: sorted, disjoint, not touching.
class TimeSet {
 public:
  TimeSet() = default;
  explicit TimeSet(std::vector<std::pair<SimTime, SimTime>> spans);  // their union

  SimDuration measure() const;
  SimDuration measure_outside(const TimeSet& other) const;  // of what is not in the other
  const std::vector<std::pair<SimTime, SimTime>>& spans() const { return spans_; }

 private:
  std::vector<std::pair<SimTime, SimTime>> spans_;
};

}  // namespace tombolo::trace
