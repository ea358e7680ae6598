// Writes a rank's shards while its next iterations run.
//
// The state is copied in memory when a checkpoint is due (Kernels::save), and from then on belongs
// to a thread that writes it, makes it durable and reports it. At most one is under way: who comes
// with the next one waits until it is done, before the state is copied again. So a rank needs
// memory for one copy of its state (of 12 bytes a parameter with AdamW in fp32) beside the state
// itself, and loses to a checkpoint what the copy takes, as long as a shard is written in less time
// than passes between two checkpoints.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "perform/runtime/checkpoint.h"
#include "perform/runtime/kernels.h"

namespace tombolo::runtime {

class CheckpointWriter {
 public:
  using Write = std::function<Result<Shard>(int64_t step, std::span<const NamedTensor> tensors)>;
  using Report = std::function<Status(int64_t step, const Shard& shard)>;
  // Both are called on the writing thread; `report` may be empty.
  CheckpointWriter(Write write, Report report, Threads& threads);
  // Waits for the shard that is being written.
  ~CheckpointWriter() = default;

  // Begins to write. Nothing else may be under way: finish() first.
  void begin(int64_t step, std::vector<NamedTensor> tensors);

  // Waits for what is under way. Fails as it did; then, and later, nothing is.
  Status finish();

  // Without waiting: the failure of what was under way and has ended meanwhile.
  Status check();

  // How long the writes took of which finish() or check() saw the end, by step.
  struct Written {
    int64_t step = 0;
    SimTime start, end;  // on the clock
  };
  std::vector<Written> take_written() { return std::exchange(written_, {}); }

 private:
  Result<Written> write(int64_t step, std::span<const NamedTensor> tensors);

  const Write write_;
  const Report report_;
  Threads& threads_;
  std::vector<Written> written_;
  // Of what is under way.
  std::atomic<bool> ended_ = false;
  Result<Written> outcome_ = Written{};
  std::unique_ptr<Thread> thread_;  // last: its destructor waits
};

}  // namespace tombolo::runtime
