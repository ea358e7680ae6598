#include "perform/train/byte_data.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/random.h"

namespace tombolo::train {

Result<ByteData> ByteData::open(const plan::Plan& plan) {
  if (!plan.data) {
    return unusable("data.text is missing: training needs a text, or files of tokens",
                    "add [data] text = \"corpus.txt\" to the job, or give --data FILE, or --tokens "
                    "FILE.bin");
  }
  std::string text = TRY(during(read_file(plan.data->text), "reading the training text"));
  return make(std::move(text), plan.data->text, plan);
}

Result<ByteData> ByteData::make(std::string text, const std::string& file, const plan::Plan& plan) {
  const int64_t sequence = plan.model.sequence;
  if (plan.model.vocabulary < 256) {
    return unusable(
        fmt::format("model.vocabulary = {}: byte tokens take 256 values", plan.model.vocabulary),
        "vocabulary = 256, or leave it out");
  }
  const double fraction = plan.data ? plan.data->evaluation_fraction : 0;
  const auto size = static_cast<int64_t>(text.size());
  const auto held_out = static_cast<int64_t>(std::floor(static_cast<double>(size) * fraction));
  ByteData data;
  data.sequence_ = sequence;
  data.seed_ = plan.run.seed;
  data.training_bytes_ = size - held_out;
  if (data.training_bytes_ < sequence + 1) {
    return unusable(fmt::format("{}: {} bytes of {} are for training, one sample takes "
                                "sequence + 1 = {}",
                                file, data.training_bytes_, size, sequence + 1),
                    "a longer text, or a smaller model.sequence");
  }
  if (held_out > 0) {
    // Windows share one byte: the last target of one is the first input of the next.
    const int64_t possible = (held_out - 1) / sequence;
    const int64_t micro_batch = plan.training.micro_batch;
    const int64_t batches =
        std::min(possible, std::max(kEvaluationWindowsMax, micro_batch)) / micro_batch;
    if (batches == 0) {
      return unusable(fmt::format("{}: the last {} bytes are held out for evaluation, one "
                                  "microbatch takes {} x {} + 1",
                                  file, held_out, micro_batch, sequence),
                      "a longer text, or data.evaluation_fraction = 0 for no evaluation");
    }
    data.evaluation_windows_ = batches * micro_batch;
    data.evaluation_stride_ = possible / data.evaluation_windows_ * sequence;
  }
  data.file_ = file;
  data.text_ = std::move(text);
  return data;
}

std::span<const uint8_t> ByteData::training_window(int64_t iteration, int64_t sample) const {
  Random random = Random(seed_).stream(fmt::format("data/{}/{}", iteration, sample));
  const auto starts = static_cast<uint64_t>(training_bytes_ - sequence_);
  const auto* bytes = reinterpret_cast<const uint8_t*>(text_.data());
  return {bytes + random.below(starts), static_cast<size_t>(sequence_ + 1)};
}

std::span<const uint8_t> ByteData::evaluation_window(int64_t window) const {
  CHECK(window >= 0 && window < evaluation_windows_, "evaluation window {} of {}", window,
        evaluation_windows_);
  const auto* bytes = reinterpret_cast<const uint8_t*>(text_.data());
  return {bytes + training_bytes_ + window * evaluation_stride_,
          static_cast<size_t>(sequence_ + 1)};
}

}  // namespace tombolo::train
