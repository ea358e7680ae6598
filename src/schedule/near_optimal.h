// A near-optimal schedule of a shape of any size: many rules for the player, the best one taken.
//
// What is varied: how deep stages warm up (micro-batches in flight, up to what memory holds), which
// kind of work goes first, when to recompute, how pipelines of a cell are released, which transfer
// goes first, and whether backwards are split. The rules that won are then varied further as long
// as that helps. Everything is deterministic; equal results go to the simpler rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/bounds.h"
#include "schedule/player.h"

namespace tombolo::schedule {

struct SearchOptions {
  bool split_backward = true;  // whether I and W may be apart
  int threads = 0;             // 0: all
  int64_t plays_max = 400;     // evaluations; the work is bounded, not the time
};

struct Candidate {
  std::string name;  // "1f1b, 6 in flight, backward split"
  SimDuration makespan;
  int32_t in_flight = 0;  // the largest of any position
  bool fits = true;       // into the memory
};

struct Found {
  Schedule schedule;
  SimDuration makespan;
  std::vector<LowerBound> bounds;  // the tightest first
  std::vector<Candidate> tried;    // the best of each family, best first
};

// Infeasible, naming the position and the numbers, where memory holds too little for any schedule.
Result<Found> near_optimal(const Shape& shape, const Times& times, const Memory& memory,
                           const SearchOptions& options = {});

}  // namespace tombolo::schedule
