// A forward pass of one microbatch and a backward pass of another on a rank at the same time: each on a thread, or
// operator by operator on the shards' own threads (stage_pairs.h). Each result is handed over as soon as it is there,
// during the rest of the other pass.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "perform/kernels/pair_kernels.h"
#include "perform/train/stage_pairs.h"
#include "perform/train/strand_threads.h"

namespace tombolo::train {

class PassPairs {
 public:
  static constexpr int32_t kStrands = 2;

  PassPairs();
  // From now on StagePairs performs the operators of both passes. Teams by strand; they outlive it.
  void arrange(std::vector<ShardTeam*> teams);
  bool arranges() const { return arranged_ != nullptr; }

  // Computes a pass and returns its result. Called on a thread of its own; may throw what guarded() catches.
  using Work = std::function<Result<kernels::Payload>()>;
  struct Works {
    Work forward, backward;
  };
  // Whole passes. Returns when both have ended and their results are handed over, on the caller's thread.
  Status run(const Works& passes, const kernels::PairResults& results);
  // Operators of both, by shard, in the `order` of a layer (StagePairs): `last` is called when all of a pass are
  // through, and begin_backward() was before.
  Status run(std::span<StagePass* const> forward, std::span<StagePass* const> backward,
             std::span<const std::string> order, const Works& last,
             const kernels::PairResults& results);

 private:
  StrandThreads threads_;
  std::unique_ptr<StagePairs> arranged_;
};

}  // namespace tombolo::train
