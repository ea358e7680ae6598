// The shortest schedule of a small shape, proven.
//
// Microbatches of a pipeline are alike, so it is enough to consider schedules in which every stage
// takes them in their order (exchange argument: give the k-th execution of a kind to microbatch k;
// whatever it needs was there for k others before). What is left to decide is how each rank
// interleaves its kinds (F, R, B, or F, R, I, W) and in which order a shared link takes its
// pipelines. A limit of K microbatches in flight says that F of k + K follows B (or W) of k.
//
// This is a job shop with precedences (job_shop.h), solved by a search that learns from its
// conflicts (bound_solver.h). Cells do not meet, nor do pipelines that share nothing: one of them
// is solved and stands for all. The pipelines of a cell are alike as well; that whose first
// activation crosses the first shared boundary first is called 0, and so on.
//
// A recomputation may run at any time between its forward and its backward, ahead of the gradient.
// Where several stages of a rank send to the same neighbour, messages are taken in the order in
// which they were sent, as a schedule's receives are. docs/laws/exact_schedule.md.
#pragma once

#include <cstdint>

#include "decide/schedule_proof/bounds.h"
#include "spec/schedule/schedule.h"

namespace tombolo::schedule_proof {

struct ExactOptions {
  bool split_backward = false;
  // Whether a rank that has recomputed does nothing else until that backward: memory of what was
  // recomputed is there for one microbatch only. So do Varuna and the player.
  bool recompute_right_before = false;
  // Guesses of the search; then what was found is given, unproven. Some 10,000 per second for 200
  // operations, and far fewer for more.
  int64_t nodes_max = 1'000'000;
};

struct Exact {
  schedule::Schedule schedule;
  SimDuration makespan;
  SimDuration bound;  // nothing is shorter than this; equal to makespan where proven
  bool proven = false;
  int64_t nodes = 0;
};

// Infeasible: the memory holds no microbatch. Unusable: a cell has more than kExactBackwardsMax
// backwards, or its pipelines cross the WAN in different ways. Meant for up to some 200 computations and transfers; Figure 6 of Atlas has 168, of
// which 48 are backwards.
inline constexpr int64_t kExactBackwardsMax = 300;
Result<Exact> solve_exact(const schedule::PipelineShape& shape, const schedule::Times& times,
                          const schedule::Memory& memory, const ExactOptions& options = {});

}  // namespace tombolo::schedule_proof
