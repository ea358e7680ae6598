// Kept states: what surviving ranks save, so that a run that lost a rank repeats only one iteration.
//
// A rank copies its state before each update, where its host has room for that (memory_budget.h).
// When it is stopped because another was lost, it writes the copy, of the step before, and what it
// holds now, each as a shard in the folder of its epoch:
//
//   run/kept/epoch-3/step-00000041/rank-0.5d8c1f0a93b2e764.safetensors, rank-0.json
//
// on its own host. When the run gathers again each rank reports what it has, and all resume from the
// newest step that every stage can supply, from whichever of its replicas is left. If replicas shard
// the optimizer's state, every rank must supply that step: a rank that is lost for good takes its
// part with it, and the run goes back to a checkpoint.
//
// Such a step exists: ranks of an epoch are at most one update apart. Say a rank has done the update
// of iteration i. It needed gradients of each microbatch of each pipeline, and each of these
// passed forward through all stages in iteration i. So every rank has begun iteration i, which it
// does after its last update of iteration i - 1, and supplies either the state after i - 1 as it
// is, or the copy that it took before its own update of i. The same holds with several stages per
// rank: one that was stopped between two updates supplies the copy alone.
//
// It also holds where groups of gradients are updated one by one while the next iteration begins
// (exchange_thread.h). Say a rank has begun to update a group of iteration i. Its sum holds
// gradients of each microbatch of each pipeline, which passed forward through all stages in
// iteration i; and a forward pass of i waits, at each stage, for every group's update of i - 1. So
// again all ranks have done all of i - 1, and each took its copy before the first group of i. Groups
// of i that a rank has updated when it stops do not count unless they are all of them.
//
// Without a copy a rank supplies what it holds, unless it is between two updates. Until the first
// rank begins its update of iteration i, and after the last one has ended it, all hold the same
// step, and nothing is lost; between the two there may be no step that all can supply, and the run
// goes back to a checkpoint.
//
// Cost: one copy of the state in memory, made on the performing thread at every iteration; and when
// a rank is lost, two shards per rank on disk.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "perform/kernels/kernels.h"
#include "perform/state/checkpoint.h"
#include "perform/state/memory_budget.h"
#include "spec/plan/plan.h"

namespace tombolo::state {

// One rank's copy. The performing thread copies; any thread may leave, also while the performing
// thread computes a forward or backward pass: those do not write what save() reads, and an update
// waits until the state is left.
class StateSnapshot {
 public:
  // step: the last one that is done, whose state the kernels hold. has_room: left out, always.
  StateSnapshot(std::string folder, int32_t rank, int64_t epoch, int64_t step, Room has_room = {});

  // Before the first update of an iteration; step: the last one that is done. The first call
  // decides whether there are copies, for by then the kernels have all the memory that they need.
  Status copy(int64_t step, const kernels::Kernels& kernels);
  // Bytes of a copy for which there was no room, or is none any more: then no copies are made. 0:
  // there is room.
  int64_t too_large() const;
  // All updates of this step are done.
  void updated(int64_t step);
  // The copy, and what the kernels hold where that is of one step.
  Status leave(const kernels::Kernels& kernels);

 private:
  Status write(int64_t step, std::span<const kernels::TensorView> tensors) const;

  const std::string folder_;
  const int32_t rank_;
  mutable std::mutex mutex_;  // held while the state is copied or left
  const int64_t epoch_;
  const Room has_room_;
  std::optional<int64_t> now_;  // what the kernels hold; nothing in the middle of updates
  std::optional<int64_t> copied_;
  std::vector<kernels::NamedTensor> copy_;  // made once, and filled again and again
  int64_t too_large_ = 0;
};

// "run/kept", and the folder of an epoch in it.
std::string kept_folder(const std::string& output);
std::string kept_folder(const std::string& output, uint64_t epoch);
// Removes the kept states of all epochs. Other files in that folder are not ours, and stay.
void remove_kept(const std::string& output);

// One kept state: the .json file next to a shard, which makes it exist.
struct KeptShard {
  int64_t step = 0;
  int32_t rank = 0;
  Shard shard;  // of its epoch

  bool operator==(const KeptShard&) const = default;
};

// All whose shards are in this output folder, whole as far as their size tells; of one rank alone
// where `rank` is not negative. Notes that cannot be read do not count: they were torn when their
// rank was killed.
std::vector<KeptShard> list_kept(const std::string& output, int32_t rank = -1);

// The newest step, from `first` on and below run.steps, so that something is left to do, that every
// stage of the Plan can supply from one epoch; of several epochs the newest. Nothing where there is
// none. Pure.
struct KeptChoice {
  uint64_t epoch = 0;
  Manifest manifest;
};
std::optional<KeptChoice> choose_kept(std::span<const KeptShard> kept, const plan::Plan& plan,
                                      int64_t first);

template <class Archive>
void describe(Archive& a, KeptShard& kept) {
  a.required("step", kept.step);
  a.required("rank", kept.rank);
  a.required("shard", kept.shard);
  a.check(kept.step >= 1, "step", "must be at least 1");
  a.check(kept.rank >= 0, "rank", "must not be negative");
}

}  // namespace tombolo::state
