// A rank's files, on its own host: checkpoints, kept states, its part of the Trace.
//
// It reports which files are there, serves pieces of them, commits a checkpoint when the launcher
// has seen all shards, and removes older ones once all hosts have the newer one. This runs on a
// thread of its own, so a slow disk delays neither the computation nor the heartbeats.
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
  std::string run = {};     // its name in the lock (checkpoint_lock.h); empty: not locked
};

// "trace-rank-3.jsonl" in the folder: a rank's part of the Trace, until the launcher merges them.
std::string rank_trace_path(const std::string& folder, int32_t rank);

// The answer to a request for a piece of a file: its bytes, or the error.
FilePiece answer(const StatePlaces& places, int32_t rank, const FileRequest& asked);

class CheckpointAgent {
 public:
  using Say = std::function<Status(const StateMessage&)>;
  CheckpointAgent(StatePlaces places, int32_t rank, Say say, Threads& threads);
  ~CheckpointAgent();  // finishes

  const StatePlaces& places() const { return places_; }

  // The files of earlier attempts on this host. `fresh`: the run begins, so kept states are removed
  // and not listed. On the calling thread.
  Inventory take_stock(bool fresh) const;
  // Checks that all folders can be written to, that of checkpoints if there will be some, and locks
  // the latter against other runs as long as this object lives. Called before the first step,
  // so that an unusable folder is not found only after the last one.
  Status prepare(bool takes_checkpoints);

  // Queues an order; returns at once. Orders are done in sequence; failures go to the launcher.
  using Order = std::variant<Commit, Drop, Retire, FileRequest>;
  void take(Order order);
  // Waits until all orders are done; later ones are ignored.
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
