// A near-optimal schedule of a shape of any size, in three steps; the best of all is taken.
//
//   published   the schedules of the literature that take this shape and fit into its memory
//   rules       for the player, varied as long as that helps (rule_search.h): how deep stages warm
//               up, which work goes first, releases, link rules, whether backwards are split
//   orders      of the best of both, improved where the longest path runs (order_search.h)
//
// Stops where a lower bound is met. Everything is deterministic; equal results go to the simpler
// one. docs/laws/best_schedule.md says how far from the optimum it ends, and how far ahead of what
// is published.
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
  // The work is bounded, not the time: plays of rules, and computations looked at while orders are
  // improved (some 10 ns each; 0: they are not).
  int64_t plays_max = 400;
  int64_t steps_max = 60'000'000;
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
