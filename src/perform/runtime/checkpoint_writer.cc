#include "perform/runtime/checkpoint_writer.h"

#include "base/check.h"

namespace tombolo::runtime {

CheckpointWriter::CheckpointWriter(Write write, Report report, const Clock& clock)
    : write_(std::move(write)), report_(std::move(report)), clock_(clock) {
  CHECK(write_, "nobody writes the checkpoints");
}

void CheckpointWriter::begin(int64_t step, std::vector<NamedTensor> tensors) {
  CHECK(!under_way_.valid(), "step {} while another checkpoint is under way", step);
  under_way_ = std::async(std::launch::async,
                          [this, step, tensors = std::move(tensors)]() -> Result<Written> {
                            Written written{.step = step, .start = clock_.now()};
                            const Shard shard = TRY(write_(step, tensors));
                            if (report_) TRY(report_(step, shard));
                            written.end = clock_.now();
                            return written;
                          });
}

Status CheckpointWriter::finish() {
  if (!under_way_.valid()) return {};
  written_.push_back(TRY(under_way_.get()));
  return {};
}

Status CheckpointWriter::check() {
  if (!under_way_.valid()) return {};
  const bool ended = under_way_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  return ended ? finish() : Status();
}

}  // namespace tombolo::runtime
