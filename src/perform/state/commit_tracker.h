// The launcher's record of checkpoints that are being committed.
//
//   every shard is reported     ->  all ranks are to commit (Commit)
//   every rank has committed    ->  the checkpoint exists everywhere; older ones may go (Retire)
//
// A rank reports a shard when it has read it back from its disk (state/checkpoint.h), and commits
// when the manifest and the folder around it would survive a power cut. So nothing older is removed
// before what replaces it is whole on every host. If a rank cannot do its part, because its disk is
// full, the checkpoint is missed: it never exists everywhere, and older ones stay. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "base/result.h"
#include "perform/state/checkpoint.h"
#include "spec/plan/plan.h"

namespace tombolo::state {

class CommitTracker {
 public:
  // The Plan outlives this object.
  CommitTracker(const plan::Plan& plan, int64_t epoch) : plan_(plan), epoch_(epoch) {}

  // Takes one rank's shard; returns the manifest when it was the last one missing. The first replica
  // writes for all, unless they shard the optimizer's state.
  // Fails, naming the rank, if the shard is of another epoch, of a rank that writes none, or has
  // another file's name: such a shard is ignored.
  Result<std::optional<state::Manifest>> add(int32_t rank, int64_t step, const state::Shard& shard);

  // A rank has made a checkpoint exist on its host. True if it was the last one. Fails if it was not
  // asked to.
  Result<bool> committed(int32_t rank, int64_t step);

  // A rank's part of it will be missing. Later reports of other ranks about this step are ignored.
  // False if that was known.
  bool missed(int64_t step);
  bool is_missed(int64_t step) const { return missed_.contains(step); }

  // Some rank has been asked to commit and has not reported that it did.
  bool pending() const { return !awaited_.empty(); }

 private:
  const plan::Plan& plan_;
  const int64_t epoch_;
  std::map<int64_t, std::map<int32_t, state::Shard>> shards_;  // by step, then by rank
  std::map<int64_t, std::set<int32_t>> awaited_;               // by step: ranks yet to commit
  std::set<int64_t> missed_;
};

}  // namespace tombolo::state
