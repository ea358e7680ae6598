// A near-optimal schedule of a shape of any size, in three steps; the best of all is taken.
//
//   published   the schedules of the literature that take this shape and fit into its memory
//   rules       for the player, varied as long as that helps (rule_search.h): how deep stages warm
//               up, which work goes first, releases, link rules, whether backwards are split
//   orders      of the best of both, improved: the whole pushed to and fro (justify.h), then
//               exchanges where the longest path runs (order_search.h)
//
// Stops where a lower bound is met. Everything is deterministic; equal results go to the simpler
// one. docs/laws/best_schedule.md says how far from the optimum it ends, and how far ahead of what
// is published.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decide/schedule_proof/bounds.h"
#include "spec/schedule/player.h"

namespace tombolo::schedule_search {

struct SearchOptions {
  bool split_backward = true;  // whether I and W may be apart
  // Whether a rank that has recomputed does nothing else until that backward: memory of what was
  // recomputed is there for one microbatch only.
  bool recompute_right_before = true;
  int threads = 0;  // 0: all
  // The work is bounded, not the time: plays of rules (fewer where one has more than 15,000
  // computations), and computations looked at while orders are improved, some 10 ns each.
  int64_t plays_max = 400;
  int64_t steps_max = 60'000'000;
};

struct TriedSchedule {
  std::string name;  // "zb-h1", or "backward first, 12 in flight, weights when idle, improved"
  SimDuration makespan;
  int32_t in_flight = 0;  // the largest of any position
  bool fits = true;       // into the memory; what does not is only told
};

struct Found {
  schedule::Schedule schedule;
  SimDuration makespan;
  std::vector<schedule_proof::LowerBound> bounds;  // the tightest first
  std::vector<TriedSchedule> tried;  // by name, those that fit first, then the shortest
};

// Infeasible, naming the position and the numbers, where memory holds too little for any schedule.
Result<Found> near_optimal(const schedule::PipelineShape& shape, const schedule::Times& times,
                           const schedule::Memory& memory, const SearchOptions& options = {});

}  // namespace tombolo::schedule_search
