// The shortest schedule of a small shape, proven.
//
// Micro-batches of a pipeline are alike, so it is enough to consider schedules in which every stage
// takes them in their order (exchange argument: give the k-th execution of a kind to micro-batch k;
// whatever it needs was there for k others before). What is left to decide is how each rank
// interleaves its kinds (F, R, B, or F, R, I, W) and in which order a shared link takes its
// pipelines. A limit of K micro-batches in flight says that F of k + K follows B (or W) of k.
#pragma once

#include <cstdint>

#include "schedule/bounds.h"
#include "schedule/schedule.h"

namespace tombolo::schedule {

struct ExactOptions {
  bool split_backward = false;
  int64_t nodes_max = 20'000'000;  // of the search; then what was found is given, unproven
};

struct Exact {
  Schedule schedule;
  SimDuration makespan;
  SimDuration bound;  // nothing is shorter than this; equal to makespan where proven
  bool proven = false;
  int64_t nodes = 0;
};

// Infeasible where the memory holds no micro-batch. Meant for some 200 computations and transfers
// or fewer; Figure 6 of Atlas has 168.
Result<Exact> solve_exact(const Shape& shape, const Times& times, const Memory& memory,
                          const ExactOptions& options = {});

}  // namespace tombolo::schedule
