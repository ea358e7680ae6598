#include "predict/cost/worth.h"

#include <algorithm>

#include "base/check.h"
#include "predict/cost/price_plan.h"

namespace tombolo::cost {

Worth worth_of(const plan::Plan& plan, Seconds iteration) {
  Worth worth{.ledger = ledger::Ledger::of(plan)};
  if (plan.has_model() && iteration > 0_s) {
    worth.tokens_per_s = real(plan.training.global_batch * plan.model.sequence) / iteration.value;
    worth.mfu = mfu_of(plan, iteration);
  }
  worth.cost = worth.ledger.cost(iteration);
  return worth;
}

MemoryPeak memory_peak(const plan::Plan& plan, std::span<const Bytes> per_rank) {
  CHECK(per_rank.size() == plan.ranks.size() && !per_rank.empty(),
        "memory of {} ranks, of a Plan with {}", per_rank.size(), plan.ranks.size());
  const auto peak = std::max_element(per_rank.begin(), per_rank.end());
  const auto rank = static_cast<int32_t>(peak - per_rank.begin());
  return {.bytes = *peak, .capacity = plan.device_of(rank).memory, .rank = rank};
}

}  // namespace tombolo::cost
