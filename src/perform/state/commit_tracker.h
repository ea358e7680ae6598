// Which checkpoints are on their way to exist: the launcher's book of them.
//
//   every shard is reported     ->  all ranks are to commit (Commit)
//   every rank has committed    ->  the checkpoint exists everywhere; older ones may go (Retire)
//
// A rank reports a shard when it has read it back from its disk (state/checkpoint.h), and commits
// when the manifest and the folder around it would survive a power cut. So nothing older is removed
// before what replaces it is whole on every host. Where one of them cannot do its part, because its
// disk is full, the checkpoint is missed: it never exists everywhere, and what is older stays. Pure.
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
  // The Plan outlives the book.
  CommitTracker(const plan::Plan& plan, int64_t epoch) : plan_(plan), epoch_(epoch) {}

  // One rank's shard. The manifest where it is the last one: of replicas the first writes for all,
  // where they do not shard the optimizer's state.
  // Fails, naming the rank, where it is of another epoch, of a rank that writes none, or has
  // another file's name: then it is as if it had never come.
  Result<std::optional<state::Manifest>> add(int32_t rank, int64_t step, const state::Shard& shard);

  // A rank has made a checkpoint exist on its host. True where it was the last one. Fails where
  // nobody asked it to.
  Result<bool> committed(int32_t rank, int64_t step);

  // Somebody's part of it will not be there. What others still say of theirs counts for nothing.
  // False where that was known.
  bool missed(int64_t step);
  bool is_missed(int64_t step) const { return missed_.contains(step); }

  // Some rank has been asked to commit, and has not said that it did.
  bool pending() const { return !awaited_.empty(); }

 private:
  const plan::Plan& plan_;
  const int64_t epoch_;
  std::map<int64_t, std::map<int32_t, state::Shard>> shards_;  // by step, then by rank
  std::map<int64_t, std::set<int32_t>> awaited_;               // by step: who has not committed
  std::set<int64_t> missed_;
};

}  // namespace tombolo::state
