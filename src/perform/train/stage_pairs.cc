#include "perform/train/stage_pairs.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

namespace tombolo::train {
namespace {

// The last one that makes what a strand is for: bEMBED and gradients of weights come after the gradient of the input.
StrandOperator& last_of(std::vector<StrandOperator>& operators, int32_t strand) {
  for (size_t i = operators.size(); i-- > 0;) {
    const std::string_view name = operators[i].name;
    if (operators[i].strand != strand) continue;
    if (strand == 0 || name.starts_with("bLN1")) return operators[i];
  }
  CHECK(false, "no operator ends strand {}", strand);
}

// Of operators that compute activations a second time, those of a layer: "rFC1.2".
bool is_again(std::string_view name, std::string_view suffix) {
  return name.starts_with('r') && name.ends_with(suffix) &&
         (suffix.empty() || name.find('.') == name.size() - suffix.size());
}

// What stands around the layers comes where its strand allows: before the first and after the last of both.
Result<StrandOrder> order_of_pair(std::span<const StrandOperator> operators,
                                  const StagePass& forward, const StagePass& backward,
                                  std::span<const std::string> of_layer) {
  if (of_layer.empty()) return order_of(operators, Way::kByTurns);
  std::set<std::string, std::less<>> left;
  for (const StrandOperator& each : operators) left.insert(each.name);
  std::vector<std::string> names;
  const auto take = [&](std::string name) {
    if (left.erase(name) > 0) names.push_back(std::move(name));
  };
  for (const char* const name : {"EMBED", "bHEAD"}) take(name);
  const size_t layers = std::max(forward.layers(), backward.layers());
  for (size_t layer = 0; layer < layers; ++layer) {
    // A plan of strands has computed activations again before the pair.
    for (const StrandOperator& each : operators) {
      if (is_again(each.name, suffix_of_layer(layer, backward.layers()))) take(each.name);
    }
    for (const std::string& name : of_layer) {
      for (const StagePass* const pass : {&forward, &backward})
        take(name + suffix_of_layer(layer, pass->layers()));
    }
  }
  for (const char* const name : {"HEAD", "bEMBED"}) take(name);
  return order_of(operators, names);
}

}  // namespace

StagePairs::StagePairs(std::vector<ShardTeam*> teams) : teams_(std::move(teams)) {
  for (int32_t shard = 0; shard < teams_.front()->shards(); ++shard)
    executors_.push_back(std::make_unique<StrandExecutor>([this] {
      for (ShardTeam* const team : teams_) team->abandon();
    }));
}

Status StagePairs::check(StagePass& forward, StagePass& backward,
                         std::span<const std::string> order) {
  TRY(order_of_pair(operators_of(&forward, &backward), forward, backward, order));
  return {};
}

void StagePairs::run(std::span<StagePass* const> forward, std::span<StagePass* const> backward,
                     std::span<const std::string> of_layer, const Ends& ends) {
  std::atomic<size_t> without[2] = {executors_.size(), executors_.size()};
  teams_.front()->run([&](int32_t shard) {
    const auto i = static_cast<size_t>(shard);
    std::vector<StrandOperator> operators = operators_of(forward[i], backward[i]);
    for (const int32_t strand : {0, 1}) {
      StrandOperator& last = last_of(operators, strand);
      last.work = [&, strand, work = std::move(last.work)] {
        work();
        if (--without[strand] == 0) (strand == 0 ? ends.forward : ends.backward)();
      };
    }
    const Result<StrandOrder> order = order_of_pair(operators, *forward[i], *backward[i], of_layer);
    CHECK(order, "{}", order.error().text());
    executors_[i]->run(operators, *order);
  });
}

}  // namespace tombolo::train
