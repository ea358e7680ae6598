// What no schedule of a shape can beat, and why.
//
// Each bound relaxes all but one kind of resource. They hold for any order of computations and
// transfers, with or without limits of memory unless said otherwise.
#pragma once

#include <string>
#include <vector>

#include "spec/schedule/schedule.h"

namespace tombolo::schedule_proof {

struct LowerBound {
  SimDuration value;
  std::string reason;  // "rank 3 computes 42 ms, the first input reaches it after 8 ms, and ..."
};

// All of them, the tightest first:
//   work      a rank's computations, after the shortest way to it and before the shortest way back
//   link      a shared link's (or a pair's) transfers, with the ways before and after likewise
//   path      one microbatch there and back
//   memory    with K in flight on a rank: M / K round trips from it to the end and back, the first
//             of them behind others; and all but K microbatches between its first gradient and its
//             last forward
// Where backwards may be split, a way back needs I only, and a rank's last W has nothing behind it;
// those bounds hold for whole backwards, too, whose own are tighter. Where passes may be co-executed
// every forward counts as if it were in the pair that saves most.
// Of shapes whose pipelines cross the WAN alike (no groups). Cost: O(stages), with memory its square.
std::vector<LowerBound> lower_bounds(const schedule::PipelineShape& shape,
                                     const schedule::Times& times, const schedule::Memory& memory,
                                     bool split_backward = true);

}  // namespace tombolo::schedule_proof
