#include "predict/workload/rank_numbering.h"

#include <algorithm>

namespace tombolo::workload {
namespace {

// "tp-cp-ep-dp-pp" -> its words. Unusable: a word that is unknown, twice, or missing though split.
Result<std::vector<std::string>> read_order(const plan::Parallelism& p, const std::string& file) {
  const auto refuse = [&](const std::string& why) {
    return unusable(fmt::format("{}: parallelism.order = \"{}\": {}", file, p.order, why),
                    "\"tp-cp-ep-dp-pp\", innermost first");
  };
  std::vector<std::pair<std::string, int64_t>> degrees{
      {"tp", p.tensor}, {"cp", p.context}, {"ep", p.expert}, {"dp", p.data}, {"pp", p.pipeline}};
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= p.order.size();) {
    const size_t end = std::min(p.order.find('-', begin), p.order.size());
    const std::string word = p.order.substr(begin, end - begin);
    const auto found = std::find_if(degrees.begin(), degrees.end(),
                                    [&](const auto& entry) { return entry.first == word; });
    if (found == degrees.end()) return refuse(fmt::format("\"{}\" is unknown or twice", word));
    degrees.erase(found);
    words.push_back(word);
    begin = end + 1;
  }
  for (const auto& [word, degree] : degrees) {
    if (degree > 1) return refuse(fmt::format("\"{}\" is missing", word));
  }
  return words;
}

}  // namespace

std::vector<int32_t> RankGroups::members(size_t group) const {
  CHECK(group < bases.size(), "group {} of {}", group, bases.size());
  std::vector<int32_t> out(offsets);
  for (int32_t& rank : out) rank += bases[group];
  return out;
}

Result<RankNumbering> RankNumbering::make(const plan::Parallelism& p, const std::string& file) {
  if (!p.tensor_per_stage.empty()) {
    return unusable(fmt::format("{}: parallelism.tensor_per_stage = [{}]: ranks are numbered with "
                                "one tensor degree",
                                file, fmt::join(p.tensor_per_stage, ", ")),
                    "tensor = 8 for all stages; tombolo estimate, traffic and simulate know stages "
                    "of unlike degrees");
  }
  const std::vector<std::string> order = TRY(read_order(p, file));
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
  for (const std::string& word : order) {
    const auto place = [](Axis& axis, int64_t& next) {
      axis.stride = next;
      next *= axis.count;
    };
    if (word == "tp") {
      place(n.tensor_, stride);
      expert_stride *= p.tensor;
    } else if (word == "cp") {
      place(n.context_, stride);
    } else if (word == "dp") {
      place(n.data_, stride);
      place(n.expert_data_, expert_stride);
    } else if (word == "ep") {
      place(n.expert_, expert_stride);
    } else {
      place(n.pipeline_, stride);
      expert_pipeline_stride = expert_stride;
      expert_stride *= p.pipeline;
    }
  }
  if (p.expert > 1 && p.pipeline > 1 && expert_pipeline_stride != n.pipeline_.stride) {
    return unusable(fmt::format("{}: parallelism.order = \"{}\": the experts' numbering has other "
                                "stages than the rest of the model",
                                file, p.order),
                    "\"pp\" last");
  }
  // Without "dp" in the order the experts' copies have nowhere to go.
  if (n.expert_data_.count > 1 && p.data == 1 &&
      std::find(order.begin(), order.end(), "dp") == order.end()) {
    n.expert_data_.stride = expert_stride;
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

}  // namespace tombolo::workload
