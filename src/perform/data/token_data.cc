#include "perform/data/token_data.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "spec/plan/data_shares.h"

namespace tombolo::data {
namespace {

// Windows of each file and those before it.
std::vector<int64_t> count_windows(const std::vector<TokenFile>& files, int64_t sequence) {
  std::vector<int64_t> ends;
  int64_t sum = 0;
  for (const TokenFile& file : files) {
    sum += std::max<int64_t>(file.tokens() - 1, 0) / sequence;
    ends.push_back(sum);
  }
  return ends;
}

int64_t all_tokens(const std::vector<TokenFile>& files) {
  int64_t sum = 0;
  for (const TokenFile& file : files) sum += file.tokens();
  return sum;
}

Status check_positions(const plan::Plan& plan) {
  int64_t last = 0;
  if (!__builtin_mul_overflow(plan.run.steps, plan.training.global_batch, &last)) return {};
  return unusable(fmt::format("run.steps = {} of training.global_batch = {}: more samples than can "
                              "be counted",
                              plan.run.steps, plan.training.global_batch),
                  "fewer steps");
}

}  // namespace

TokenData::TokenData(std::vector<TokenFile> files, std::vector<int64_t> ends, SampleOrder order,
                     const plan::Plan& plan, std::vector<int32_t> readers)
    : files_(std::move(files)),
      ends_(std::move(ends)),
      order_(order),
      readers_(std::move(readers)),
      sequence_(plan.model.sequence),
      global_batch_(plan.training.global_batch),
      vocabulary_(plan.model.vocabulary) {
  const int64_t samples = plan.training.micro_batch;
  for (const int32_t reader : readers_) {
    const int64_t count = plan.microbatches_of(reader) * samples;
    parts_.push_back({plan.microbatches_before(reader) * samples, count, per_iteration_});
    per_iteration_ += count;
  }
}

Result<TokenData> TokenData::open(const plan::Plan& plan, int32_t pipeline) {
  CHECK(pipeline >= 0 && pipeline < plan.replicas(), "pipeline {} of {}", pipeline,
        plan.replicas());
  const std::vector<plan::DataReaders> all = TRY(plan::data_readers(plan));
  const auto found = std::ranges::find_if(all, [&](const plan::DataReaders& each) {
    return std::ranges::binary_search(each.pipelines, pipeline);
  });
  CHECK(found != all.end(), "pipeline {} reads nothing", pipeline);
  const plan::DataReaders& own = *found;
  const plan::Data& said = *plan.data;
  TRY(check_positions(plan));
  std::vector<TokenFile> files;
  for (const std::string& path : own.tokens) {
    files.push_back(
        TRY(during(TokenFile::open(path, said.format, said.dtype, plan.model.vocabulary),
                   fmt::format("opening {}", own.key))));
  }
  std::vector<int64_t> ends = count_windows(files, plan.model.sequence);
  const int64_t windows = ends.back();
  const auto held_out =
      static_cast<int64_t>(std::floor(static_cast<double>(windows) * said.evaluation_fraction));
  if (windows - held_out < 1) {
    return unusable(fmt::format("{}{}: {} tokens, one sample takes sequence + 1 = {} of one file",
                                own.tokens.front(), own.tokens.size() > 1 ? " and others" : "",
                                all_tokens(files), plan.model.sequence + 1),
                    "more tokens, or a smaller model.sequence");
  }
  const SampleOrder order(windows - held_out, own.seed, said.shuffle.value_or(true));
  TokenData data(std::move(files), std::move(ends), order, plan, own.pipelines);
  if (held_out == 0) return data;
  const int64_t micro_batch = plan.training.micro_batch;
  const int64_t batches =
      std::min(held_out, std::max(kEvaluationWindowsMax, micro_batch)) / micro_batch;
  if (batches == 0) {
    return unusable(fmt::format("{}: {} of {} samples are held out for evaluation, one microbatch "
                                "takes {}",
                                own.tokens.front(), held_out, windows, micro_batch),
                    "more tokens, or data.evaluation_fraction = 0 for no evaluation");
  }
  data.evaluation_windows_ = batches * micro_batch;
  data.evaluation_stride_ = held_out / data.evaluation_windows_;
  return data;
}

Status TokenData::read(int64_t window, std::span<int64_t> out) const {
  CHECK(static_cast<int64_t>(out.size()) == sequence_ + 1, "{} ids for a window of {}", out.size(),
        sequence_ + 1);
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), window);
  CHECK(window >= 0 && end != ends_.end(), "window {} of {}", window, ends_.back());
  const int64_t before = end == ends_.begin() ? 0 : *(end - 1);
  const TokenFile& file = files_[static_cast<size_t>(end - ends_.begin())];
  return file.read((window - before) * sequence_, out, vocabulary_);
}

Status TokenData::training_window(int64_t iteration, int64_t sample, std::span<int64_t> out) const {
  CHECK(iteration >= 1 && sample >= 0 && sample < global_batch_, "sample {} of {} in iteration {}",
        sample, global_batch_, iteration);
  const auto part = std::ranges::find_if(parts_, [&](const Part& each) {
    return sample >= each.first && sample < each.first + each.count;
  });
  CHECK(part != parts_.end(), "sample {} is of a pipeline that reads other files", sample);
  const int64_t position = (iteration - 1) * per_iteration_ + part->before + sample - part->first;
  return during(read(order_.at(position), out),
                fmt::format("reading sample {} of iteration {}", sample, iteration));
}

Status TokenData::evaluation_window(int64_t window, std::span<int64_t> out) const {
  CHECK(window >= 0 && window < evaluation_windows_, "evaluation window {} of {}", window,
        evaluation_windows_);
  return during(read(order_.samples() + window * evaluation_stride_, out),
                fmt::format("reading sample {} of the evaluation", window));
}

Result<FileDigest> TokenData::content(size_t file) const {
  double all = 0;
  for (const TokenFile& each : files_) all += static_cast<double>(each.bytes());
  const TokenFile& one = files_[file];
  const double part = static_cast<double>(one.bytes()) / std::max(all, 1.0);
  return one.content(static_cast<int64_t>(std::ceil(part * double{kDigestBytesMax})));
}

}  // namespace tombolo::data
