// Orders of a fold whose passes are co-executed in pairs, improved step by step from W and DualPipeV.
//
// A position's order is a list of passes and of pairs. A step at a random place moves one of them a
// little, joins a forward and a backward of the rank's other stage to a pair, parts a pair, puts off
// the gradient of weights of a backward, or puts both halves together again. What finishes, keeps
// every stage's microbatches in order and its rank within `in_flight`, and is at most a little
// longer than some steps ago is kept (late acceptance: Burke and Bykov, EJOR 258, 2017); the best
// one is the answer. So it is never longer than the two that it starts from, and no proof: how far
// a bound allows more is schedule_proof's to say.
//
// A fold only, one pipeline that shares no link in time; R stands right before its backward or pair.
// Cost: steps_max times the longest path, some 60 ns per pass and message.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/schedule/schedule.h"

namespace tombolo::schedule_search {

struct PairSearchOptions {
  int64_t steps_max = 20'000;  // of each start
  bool split_backward = true;
  uint64_t seed = 1;
};

struct PairsFound {
  schedule::Schedule schedule;
  SimDuration makespan;
  std::string start;      // the published one that it comes from: "w" or "dualpipev"
  bool improved = false;  // shorter than both
};

// memory.in_flight limits each position; empty: the limit is the most that a published start (w or
// dualpipev) needs there. Infeasible: neither start fits. CHECKs that the shape is a fold of one
// pipeline with pairs.
Result<PairsFound> search_pairs(const schedule::PipelineShape& shape, const schedule::Times& times,
                                const schedule::Memory& memory, const PairSearchOptions& options);

}  // namespace tombolo::schedule_search
