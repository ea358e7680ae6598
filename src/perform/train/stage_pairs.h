// A forward pass of one stage and a backward pass of another at the same time, operator by operator, on the shards of
// a rank.
//
// Each shard computes on its thread, and its collectives run on threads of its own: in the order that a plan of strands
// has for a layer, or alternating between the two strands, so that one computes while the other communicates
// (Way::kByTurns).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "perform/train/shard_team.h"
#include "perform/train/stage_pass.h"

namespace tombolo::train {

class StagePairs {
 public:
  // By strand, of as many shards each. They outlive it.
  explicit StagePairs(std::vector<ShardTeam*> teams);

  // Called when all shards have the pass' result (StagePass::output(), input_gradient()), on some thread.
  struct Ends {
    std::function<void()> forward, backward;
  };
  // One pass of each per shard, of two strands. `order`: PairCost::order, which check() has. Returns when both are
  // through. Throws what an operator has thrown.
  void run(std::span<StagePass* const> forward, std::span<StagePass* const> backward,
           std::span<const std::string> order, const Ends& ends);

  // Unusable: an order of a layer that lacks an operator, or that would deadlock. Names that are not operators here
  // are skipped: a planner also lists collectives that run within an operator.
  static Status check(StagePass& forward, StagePass& backward, std::span<const std::string> order);

 private:
  std::vector<ShardTeam*> teams_;
  std::vector<std::unique_ptr<StrandExecutor>> executors_;  // by shard
};

}  // namespace tombolo::train
