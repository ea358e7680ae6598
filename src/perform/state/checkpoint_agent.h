// A rank's files, on its own host: checkpoints, kept states, its part of the Trace.
//
// It says what is there, hands out pieces of it, makes checkpoints exist when the launcher has seen
// all shards, and removes older ones when it is told that all hosts have the newer one. That is
// done on a thread of its own: a slow disk keeps neither the computation nor the heartbeats
// waiting.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include "base/clock.h"
#include "base/result.h"
#include "perform/state/checkpoint_lock.h"
#include "perform/state/state_message.h"
#include "spec/plan/plan.h"

namespace tombolo::state {

// Where this host keeps a rank's files.
struct StatePlaces {
  std::string output;       // its part of the Trace, and kept states
  std::string checkpoints;  // empty: the Plan has none
  std::string run = {};     // whose they are (checkpoint_lock.h); empty: they are not locked
};

// "trace-rank-3.jsonl" in the folder: a rank's part of the Trace, until the launcher merges them.
std::string rank_trace_path(const std::string& folder, int32_t rank);

// What is said to whom who lacks `asked` of it: an answer with the bytes, or with what is wrong.
FilePiece answer(const StatePlaces& places, int32_t rank, const FileRequest& asked);

class CheckpointAgent {
 public:
  using Say = std::function<Status(const StateMessage&)>;
  CheckpointAgent(StatePlaces places, int32_t rank, Say say, Threads& threads);
  ~CheckpointAgent();  // finishes

  const StatePlaces& places() const { return places_; }

  // What of earlier attempts is here; where the run begins afresh nothing of kept states, which
  // are removed. On the calling thread.
  Inventory take_stock(bool fresh) const;
  // All folders can be written to, that of checkpoints where some will be, and no other run writes
  // there as long as this keeper is: before the first step, and not after the last one.
  Status prepare(bool takes_checkpoints);

  // To be done in order; returns at once. Trouble is the launcher's to hear.
  using Order = std::variant<Commit, Drop, Retire, FileRequest>;
  void take(Order order);
  // Waits until all of it is done; later orders are ignored.
  void finish();

 private:
  void work();
  Status carry_out(const Commit& commit);
  Status carry_out(const Drop& drop);
  Status carry_out(const Retire& retire);
  Status carry_out(const FileRequest& asked);

  const StatePlaces places_;
  const int32_t rank_;
  const Say say_;
  Threads& threads_;
  std::mutex mutex_;
  const std::unique_ptr<Signal> changed_;
  std::deque<Order> orders_;
  bool over_ = false;
  std::optional<CheckpointLock> lock_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace tombolo::state
