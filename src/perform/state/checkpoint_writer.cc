#include "perform/state/checkpoint_writer.h"

#include "base/check.h"
#include "base/units.h"

namespace tombolo::state {

CheckpointWriter::CheckpointWriter(Options options, Threads& threads)
    : options_(std::move(options)), threads_(threads) {
  CHECK(options_.write, "no writer of the checkpoints");
}

void CheckpointWriter::begin(int64_t step, std::vector<kernels::TensorView> state) {
  CHECK(!thread_, "step {} while another checkpoint is under way", step);
  ended_ = false;
  step_ = step;
  held_ = {};
  state_.emplace(std::move(state), threads_);
  thread_ = threads_.start([this, step] {
    outcome_ = write(step);
    state_->close();
    ended_ = true;
  });
}

Result<std::optional<CheckpointWriter::Written>> CheckpointWriter::write(int64_t step) {
  Written written{.step = step, .start = threads_.now()};
  const auto shard = options_.write(step, *state_);
  state_->close();
  if (!shard && options_.miss && shard.error().code == ErrorCode::kUnusable) {
    TRY(options_.miss(step, shard.error()));
    return std::nullopt;
  }
  if (!shard) return fail(shard.error());
  if (options_.report) TRY(options_.report(step, *shard));
  written.end = threads_.now();
  return written;
}

void CheckpointWriter::before_update() {
  if (!thread_ || state_->exposed() == 0) return;
  const SimTime start = threads_.now();
  if (!copy()) state_->await_read();
  held_ = held_ + (threads_.now() - start);
}

bool CheckpointWriter::copy() {
  const int64_t bytes = state_->exposed();
  if ((!options_.has_room || options_.has_room(bytes)) && state_->copy()) return true;
  if (options_.note && !std::exchange(noted_, true)) {
    options_.note(
        fmt::format("updates wait for checkpoints that are not written yet: this host has "
                    "no room for a copy of the {} that are left of step {}",
                    brief(Bytes{static_cast<double>(bytes)}), step_));
  }
  return false;
}

Status CheckpointWriter::finish() {
  if (!thread_) return {};
  thread_.reset();  // waits
  state_.reset();
  auto written = TRY(std::exchange(outcome_, std::nullopt));
  if (!written) return {};
  written->held = held_;
  written_.push_back(*written);
  return {};
}

Status CheckpointWriter::check() { return thread_ && ended_ ? finish() : Status(); }

}  // namespace tombolo::state
