#include "perform/runtime/checkpoint_writer.h"

#include "base/check.h"

namespace tombolo::runtime {

CheckpointWriter::CheckpointWriter(Write write, Report report, Threads& threads)
    : write_(std::move(write)), report_(std::move(report)), threads_(threads) {
  CHECK(write_, "nobody writes the checkpoints");
}

void CheckpointWriter::begin(int64_t step, std::vector<NamedTensor> tensors) {
  CHECK(!thread_, "step {} while another checkpoint is under way", step);
  ended_ = false;
  thread_ = threads_.start([this, step, tensors = std::move(tensors)] {
    outcome_ = write(step, tensors);
    ended_ = true;
  });
}

Result<CheckpointWriter::Written> CheckpointWriter::write(int64_t step,
                                                          std::span<const NamedTensor> tensors) {
  Written written{.step = step, .start = threads_.now()};
  const Shard shard = TRY(write_(step, tensors));
  if (report_) TRY(report_(step, shard));
  written.end = threads_.now();
  return written;
}

Status CheckpointWriter::finish() {
  if (!thread_) return {};
  thread_.reset();  // waits
  written_.push_back(TRY(std::exchange(outcome_, Written{})));
  return {};
}

Status CheckpointWriter::check() { return thread_ && ended_ ? finish() : Status(); }

}  // namespace tombolo::runtime
