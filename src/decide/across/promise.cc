#include "decide/across/promise.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "predict/cost/batch_by_speed.h"
#include "predict/cost/exchange_time.h"
#include "predict/cost/price_plan.h"
#include "predict/cost/worth.h"
#include "predict/sim/simulate.h"

namespace tombolo::across {
namespace {

// 1F1B; of the way there and back virtual stages leave their share (docs/laws/interleaved.md).
Seconds pipeline_time(const plan::Plan& plan, int32_t replica) {
  const cost::Pace pace = cost::pace_of(plan, replica);
  return pace.next * real(plan.microbatches_of(replica)) +
         (pace.first - pace.next) / real(plan.parallelism.virtual_stages);
}

Seconds iteration_of(const plan::Plan& plan) {
  const Seconds longest = without_exchange(plan);
  if (!plan.exchange || plan.exchange->mode != plan::ExchangeMode::kDense) return longest;
  return longest + cost::exchange_of_all(plan);
}

}  // namespace

Seconds without_exchange(const plan::Plan& plan) {
  Seconds longest;
  for (int32_t replica = 0; replica < plan.replicas(); ++replica)
    longest = std::max(longest, pipeline_time(plan, replica));
  return longest;
}

Result<Promise> promise_of(const plan::Job& job, std::optional<Seconds> closed_form,
                           search::Objective objective) {
  const plan::Plan plan = TRY(cost::make_plan(job));
  const Seconds iteration = closed_form ? *closed_form : iteration_of(plan);
  Promise promise{.score = iteration.value, .passes = sim::passes_of(plan)};
  if (objective == search::Objective::kCost) {
    if (const auto total = cost::worth_of(plan, iteration).cost.total())
      promise.score = total->value;
  }
  return promise;
}

Contest::Contest(std::vector<std::string> names, std::vector<Promise> promises)
    : names_(std::move(names)), promises_(std::move(promises)) {
  CHECK(names_.size() == promises_.size(), "{} names of {} layouts", names_.size(),
        promises_.size());
  for (size_t i = 0; i < names_.size(); ++i) by_name_[names_[i]].waiting.push_back(i);
  for (auto& [name, each] : by_name_) {
    std::stable_sort(each.waiting.begin(), each.waiting.end(),
                     [&](size_t a, size_t b) { return promises_[a].score < promises_[b].score; });
    std::reverse(each.waiting.begin(), each.waiting.end());
  }
}

std::vector<size_t> Contest::next() {
  std::vector<size_t> out;
  for (auto& [name, each] : by_name_) {
    const size_t at_once = std::isinf(each.to_beat) ? 1 : kAtOnce;
    for (size_t i = 0; i < at_once && !each.waiting.empty(); ++i) {
      if (promises_[each.waiting.back()].score > each.to_beat * (1 + kClosedFormOff)) {
        left_out_ += std::ssize(each.waiting);
        each.waiting.clear();
      } else {
        out.push_back(each.waiting.back());
        each.waiting.pop_back();
      }
    }
  }
  return out;
}

void Contest::take(size_t which, double score) {
  Name& name = by_name_[names_[which]];
  if (score > name.best) return;
  name.best = score;
  name.to_beat = std::max(score, promises_[which].score);
}

}  // namespace tombolo::across
