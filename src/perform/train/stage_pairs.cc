#include "perform/train/stage_pairs.h"

#include <atomic>
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

}  // namespace

StagePairs::StagePairs(std::vector<ShardTeam*> teams) : teams_(std::move(teams)) {
  for (int32_t shard = 0; shard < teams_.front()->shards(); ++shard)
    executors_.push_back(std::make_unique<StrandExecutor>([this] {
      for (ShardTeam* const team : teams_) team->abandon();
    }));
}

void StagePairs::run(std::span<StagePass* const> forward, std::span<StagePass* const> backward,
                     const Ends& ends) {
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
    executors_[i]->run(operators, order_of(operators, Way::kByTurns));
  });
}

}  // namespace tombolo::train
