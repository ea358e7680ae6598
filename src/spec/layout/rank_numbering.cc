#include "spec/layout/rank_numbering.h"

#include <algorithm>

namespace tombolo::layout {
std::vector<int32_t> RankGroups::members(size_t group) const {
  CHECK(group < bases.size(), "group {} of {}", group, bases.size());
  std::vector<int32_t> out(offsets);
  for (int32_t& rank : out) rank += bases[group];
  return out;
}

Result<RankNumbering> RankNumbering::make(const Parallelism& p, const std::string& file) {
  if (!p.tensor_per_stage.empty()) {
    return unusable(fmt::format("{}: parallelism.tensor_per_stage = [{}]: ranks are numbered with "
                                "one tensor degree",
                                file, fmt::join(p.tensor_per_stage, ", ")),
                    "tensor = 8 for all stages; tombolo estimate, traffic and simulate know stages "
                    "of different degrees");
  }
  const DimensionOrder order = TRY(dimension_order(p, file));
  RankNumbering n;
  for (const int64_t degree : {p.tensor, p.context, p.data, p.pipeline}) {
    n.ranks_ *= degree;  // at most 2^20 x 10^6: cannot overflow
    if (n.ranks_ > kRanksMax) {
      return unusable(fmt::format("{}: parallelism: more than {} ranks", file, kRanksMax),
                      "smaller degrees");
    }
  }
  if (p.context * p.data % p.expert != 0) {
    return unusable(fmt::format("{}: parallelism.expert = {}: does not divide context x data = {}, "
                                "whose ranks share the experts",
                                file, p.expert, p.context * p.data),
                    "a divisor of context x data");
  }
  n.tensor_.count = p.tensor;
  n.context_.count = p.context;
  n.data_.count = p.data;
  n.pipeline_.count = p.pipeline;
  n.expert_.count = p.expert;
  n.expert_data_.count = p.context * p.data / p.expert;
  int64_t stride = 1, expert_stride = 1, expert_pipeline_stride = 1;
  const auto lay = [](Axis& axis, int64_t& next) {
    axis.stride = next;
    next *= axis.count;
  };
  for (const Dimension dimension : order) {
    switch (dimension) {
      case Dimension::kTensor:
        lay(n.tensor_, stride);
        expert_stride *= p.tensor;
        break;
      case Dimension::kContext:
        lay(n.context_, stride);
        break;
      case Dimension::kData:
        lay(n.data_, stride);
        lay(n.expert_data_, expert_stride);
        break;
      case Dimension::kExpert:
        lay(n.expert_, expert_stride);
        break;
      case Dimension::kPipeline:
        lay(n.pipeline_, stride);
        expert_pipeline_stride = expert_stride;
        expert_stride *= p.pipeline;
        break;
    }
  }
  if (p.expert > 1 && p.pipeline > 1 && expert_pipeline_stride != n.pipeline_.stride) {
    return unusable(fmt::format("{}: parallelism.order = \"{}\": the experts' numbering has other "
                                "stages than the rest of the model",
                                file, p.order),
                    "\"pp\" last");
  }
  return n;
}

std::vector<RankNumbering::Axis> RankNumbering::axes(RankGroup kind) const {
  switch (kind) {
    case RankGroup::kTensor:
      return {tensor_};
    case RankGroup::kContext:
      return {context_};
    case RankGroup::kGradients:
      return {context_, data_};
    case RankGroup::kExpert:
      return {expert_};
    case RankGroup::kExpertGradients:
      return {expert_data_};
    case RankGroup::kPipeline:
      return {pipeline_};
  }
  return {};
}

RankGroups RankNumbering::groups(RankGroup kind) const {
  RankGroups out;
  out.offsets = {0};
  const std::vector<Axis> split = axes(kind);
  for (const Axis& axis : split) {
    const std::vector<int32_t> inner = std::move(out.offsets);
    out.offsets.clear();
    for (int64_t i = 0; i < axis.count; ++i) {
      for (const int32_t offset : inner) {
        out.offsets.push_back(static_cast<int32_t>(offset + i * axis.stride));
      }
    }
  }
  std::sort(out.offsets.begin(), out.offsets.end());
  for (int64_t rank = 0; rank < ranks_; ++rank) {
    const bool first = std::all_of(split.begin(), split.end(), [&](const Axis& axis) {
      return rank / axis.stride % axis.count == 0;
    });
    if (first) out.bases.push_back(static_cast<int32_t>(rank));
  }
  return out;
}

}  // namespace tombolo::layout
