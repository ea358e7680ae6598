#include "perform/train/samples.h"

#include <algorithm>
#include <utility>

namespace tombolo::train {

Result<Samples> Samples::open(const plan::Plan& plan, int32_t pipeline) {
  if (plan.data && plan.data->of_tokens()) {
    data::TokenData tokens = TRY(data::TokenData::open(plan, pipeline));
    const auto own = std::ranges::lower_bound(tokens.readers(), pipeline);
    const int64_t reader = own - tokens.readers().begin(), readers = std::ssize(tokens.readers());
    return Samples(std::move(tokens), reader, readers);
  }
  return Samples(TRY(ByteData::open(plan)), pipeline, plan.replicas());
}

Status Samples::training(int64_t iteration, int64_t sample, std::span<int64_t> out) const {
  if (const auto* tokens = std::get_if<data::TokenData>(&source_)) {
    return tokens->training_window(iteration, sample, out);
  }
  std::ranges::copy(std::get<ByteData>(source_).training_window(iteration, sample), out.begin());
  return {};
}

Status Samples::evaluation(int64_t window, std::span<int64_t> out) const {
  if (const auto* tokens = std::get_if<data::TokenData>(&source_)) {
    return tokens->evaluation_window(window, out);
  }
  std::ranges::copy(std::get<ByteData>(source_).evaluation_window(window), out.begin());
  return {};
}

int64_t Samples::evaluation_windows() const {
  return std::visit([](const auto& source) { return source.evaluation_windows(); }, source_);
}

Result<std::vector<kernels::DataFacts::File>> Samples::files() const {
  std::vector<kernels::DataFacts::File> out;
  if (const auto* text = std::get_if<ByteData>(&source_)) {
    out.push_back({text->file(), text->content()});
    return out;
  }
  const auto& tokens = std::get<data::TokenData>(source_);
  for (size_t i = 0; i < tokens.files().size(); ++i)
    out.push_back({tokens.files()[i].path(), TRY(tokens.content(i))});
  return out;
}

}  // namespace tombolo::train
