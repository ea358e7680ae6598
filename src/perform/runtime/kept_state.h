// Kept states: what survivors leave behind, so that a run that lost somebody repeats one iteration.
//
// A rank copies its state before each update. When it is stopped because another was lost, it
// writes the copy, of the step before, and what it holds now, each as a shard in the folder of its
// epoch:
//
//   run/kept/epoch-3/step-00000041/rank-0.safetensors, rank-0.json
//
// and the launcher makes a checkpoint of the newest step that every stage can supply, from
// whichever of its replicas is left.
//
// There is one: the ranks of an epoch are at most one update apart. Say a rank has done the update
// of iteration i. It needed gradients of each micro-batch of each pipeline, and each of these
// passed forward through all stages in iteration i. So every rank has begun iteration i, which it
// does after its last update of iteration i - 1, and supplies either the state after i - 1 as it
// is, or the copy that it took before its own update of i. The same holds with several stages per
// rank: one that was stopped between two updates supplies the copy alone.
//
// Cost: one copy of the state in memory, made on the performing thread at every iteration; and when
// somebody is lost, two shards per rank on disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "perform/runtime/checkpoint.h"
#include "perform/runtime/kernels.h"
#include "spec/plan/plan.h"

namespace tombolo::runtime {

// One rank's copy.
class KeptState {
 public:
  // step: the last one that is done, whose state the kernels hold.
  KeptState(std::string folder, int32_t rank, int64_t step);

  // Before the first update of an iteration; step: the last one that is done.
  Status copy(int64_t step, const Kernels& kernels);
  // All updates of this step are done.
  void updated(int64_t step);
  // The copy, and what the kernels hold where that is of one step.
  Status leave(const Kernels& kernels) const;

 private:
  Status write(int64_t step, std::span<const NamedTensor> tensors) const;

  const std::string folder_;
  const int32_t rank_;
  std::optional<int64_t> now_;  // what the kernels hold; nothing in the middle of updates
  std::optional<int64_t> copied_;
  std::vector<NamedTensor> copy_;
};

// "run/kept", and the folder of an epoch in it.
std::string kept_folder(const std::string& output);
std::string kept_folder(const std::string& output, uint64_t epoch);

// Makes a checkpoint of the newest step in `folder` that every stage of the Plan can supply, below
// run.steps, so that something is left to do. Nothing where there is none.
Result<std::optional<FoundCheckpoint>> gather_kept(const std::string& folder,
                                                   const plan::Plan& plan);

}  // namespace tombolo::runtime
