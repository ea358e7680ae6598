#include "spec/layout/parallelism.h"

namespace tombolo::layout {

void Parallelism::set_variant(const ScheduleVariant& variant) {
  schedule = variant.schedule;
  virtual_stages = variant.chunks;
  sharing = variant.sharing;
  cell.reset();
  if (variant.sharing == Sharing::kTemporal) cell = variant.cell;
  discipline = variant.discipline;
}

ScheduleVariant Parallelism::variant_as(ScheduleKind kind) const {
  ScheduleVariant out{.schedule = kind, .discipline = discipline};
  constexpr int64_t kChunks = 2;
  if (mapping_of(kind) != StageMapping::kLine) {
    out.chunks = mapping_of(kind) == mapping() ? virtual_stages : kChunks;
  }
  out.sharing = sharing.value_or(traits_of(kind).sharing);
  if (out.sharing == Sharing::kTemporal) out.cell = cell.value_or(data);
  return out;
}

namespace {

struct NamedDimension {
  std::string_view word;  // in [parallelism].order
  Dimension dimension;
  int64_t Degrees::*degree;
};
constexpr NamedDimension kDimensions[] = {{"tp", Dimension::kTensor, &Degrees::tensor},
                                          {"cp", Dimension::kContext, &Degrees::context},
                                          {"ep", Dimension::kExpert, &Degrees::expert},
                                          {"dp", Dimension::kData, &Degrees::data},
                                          {"pp", Dimension::kPipeline, &Degrees::pipeline}};

}  // namespace

Result<DimensionOrder> dimension_order(const Parallelism& p, const std::string& file) {
  const auto refuse = [&](std::string_view word, std::string_view why) {
    return unusable(
        fmt::format("{}: parallelism.order = \"{}\": \"{}\" is {}", file, p.order, word, why),
        "\"tp-cp-ep-dp-pp\", innermost first");
  };
  std::vector<Dimension> order;
  const auto there = [&](Dimension dimension) {
    return std::find(order.begin(), order.end(), dimension) != order.end();
  };
  const std::string_view text = p.order;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('-', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    const auto named = std::find_if(std::begin(kDimensions), std::end(kDimensions),
                                    [&](const NamedDimension& each) { return each.word == word; });
    if (named == std::end(kDimensions)) return refuse(word, "unknown");
    if (there(named->dimension)) return refuse(word, "there twice");
    order.push_back(named->dimension);
  }
  for (const NamedDimension& each : kDimensions) {
    if (there(each.dimension)) continue;
    const bool experts = each.dimension == Dimension::kExpert;
    if (p.*each.degree > 1 && !experts) return refuse(each.word, "missing");
    const auto before_data = std::find(order.begin(), order.end(), Dimension::kData);
    order.insert(experts ? before_data : order.end(), each.dimension);
  }
  DimensionOrder out{};
  std::copy(order.begin(), order.end(), out.begin());
  return out;
}

int64_t rank_of_shard(const Parallelism& p, int64_t position, int64_t replica, int64_t shard) {
  CHECK(position >= 0 && position < p.pipeline && replica >= 0 && replica < p.data,
        "there is no position {} of pipeline {}", position, replica);
  CHECK(shard >= 0 && shard < p.shards_at(position), "shard {} of {}", shard,
        p.shards_at(position));
  int64_t before = 0;
  for (int64_t s = 0; s < position; ++s) before += p.data * p.shards_at(s);
  return before + replica * p.shards_at(position) + shard;
}

}  // namespace tombolo::layout
