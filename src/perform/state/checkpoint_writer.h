// Writes a rank's shards while its next iterations run.
//
// A thread reads the state where it lies (copy_on_write_state.h), writes it, makes it durable and reports
// it. Before the next update what is unread is copied, where the host has room for it
// (memory_budget.h), so that a slow disk does not stop training; else the update waits. At most one
// checkpoint is under way: the next one waits until it is done. So a run loses no time to a
// checkpoint that is written in less time than the passes of an iteration take, and needs no memory
// for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "perform/kernels/kernels.h"
#include "perform/state/checkpoint.h"
#include "perform/state/copy_on_write_state.h"
#include "perform/state/memory_budget.h"

namespace tombolo::state {

class CheckpointWriter {
 public:
  using Write = std::function<Result<Shard>(int64_t step, CopyOnWriteState& state)>;
  using Report = std::function<Status(int64_t step, const Shard& shard)>;
  // Called instead of a report if a shard could not be written (kUnusable, for example because the
  // disk is full); the writer then does not fail.
  using Miss = std::function<Status(int64_t step, const Error& error)>;
  struct Options {
    // All three are called on the writing thread; `report` and `miss` may be empty.
    Write write;
    Report report;
    Miss miss;
    Room has_room;                                 // left out: always
    std::function<void(const std::string&)> note;  // one line for people, or none
  };
  CheckpointWriter(Options options, Threads& threads);
  // Waits for the shard that is being written.
  ~CheckpointWriter() = default;

  // Begins to write. Nothing else may be under way: finish() first.
  void begin(int64_t step, std::vector<kernels::TensorView> state);

  // The state is about to change. A write under way still gets the state as it was at begin(). Cost: a
  // copy of what is unread, or the time until all is read.
  void before_update();

  // Waits for the write under way, and fails as it did. Afterwards none is under way.
  Status finish();

  // Without waiting: the failure of a write that has ended meanwhile.
  Status check();

  // How long each write took whose end finish() or check() has seen, by step; missed ones are left
  // out.
  struct Written {
    int64_t step = 0;
    SimTime start, end;  // on the clock
    SimDuration held;    // how long before_update() took
  };
  std::vector<Written> take_written() { return std::exchange(written_, {}); }

 private:
  Result<std::optional<Written>> write(int64_t step);
  bool copy();

  const Options options_;
  Threads& threads_;
  std::vector<Written> written_;
  bool noted_ = false;  // that updates wait
  // Of what is under way.
  int64_t step_ = 0;
  SimDuration held_;
  std::optional<CopyOnWriteState> state_;
  std::atomic<bool> ended_ = false;
  Result<std::optional<Written>> outcome_ = std::nullopt;
  std::unique_ptr<Thread> thread_;  // last: its destructor waits
};

}  // namespace tombolo::state
