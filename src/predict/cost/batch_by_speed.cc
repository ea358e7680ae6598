#include "predict/cost/batch_by_speed.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include "base/check.h"
#include "predict/cost/price_plan.h"
#include "predict/cost/stage_laws.h"

namespace tombolo::cost {
Pace pace_of(const plan::Plan& plan, int32_t replica) {
  std::vector<StagePass> positions(static_cast<size_t>(plan.parallelism.pipeline));
  for (int32_t s = 0; s < std::ssize(plan.stages); ++s) {
    const plan::StageCost& cost = plan.cost_on(plan.rank_of(s, replica), s);
    StagePass& here = positions[static_cast<size_t>(plan.position_of(s))];
    here.forward += cost.forward;
    here.backward += cost.backward + cost.recompute;
  }
  std::vector<Hop> hops;
  for (int32_t position = 1; position < plan.parallelism.pipeline; ++position) {
    const int32_t from = (position - 1) * plan.replicas() + replica;
    hops.push_back(wan_hop(plan, from, from + plan.replicas()).value_or(Hop{}));
  }
  return {round_trip(positions, hops), period(positions, hops)};
}

std::vector<int64_t> divide_by_pace(std::span<const Pace> paces, int64_t microbatches) {
  CHECK(!paces.empty() && microbatches >= std::ssize(paces), "{} microbatches for {} pipelines",
        microbatches, paces.size());
  const auto next_of = [&](size_t i) { return std::max(paces[i].next.value, 1e-12); };
  const auto within = [&](size_t i, double time) {
    const double more = std::floor(std::max(0.0, time - paces[i].first.value) / next_of(i));
    return 1 + static_cast<int64_t>(std::min(more, static_cast<double>(microbatches)));
  };
  const auto all_within = [&](double time) {
    int64_t sum = 0;
    for (size_t i = 0; i < paces.size(); ++i) sum += within(i, time);
    return sum;
  };
  // The longest time within which they do no more than there are, by halving.
  constexpr double kLongest = 9e9;  // seconds; what takes longer is refused when it is scheduled
  double enough = 0, too_long = 1e-9;
  while (too_long < kLongest && all_within(too_long) <= microbatches) too_long *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = enough + (too_long - enough) / 2;
    (all_within(middle) <= microbatches ? enough : too_long) = middle;
  }
  std::vector<int64_t> each(paces.size());
  for (size_t i = 0; i < paces.size(); ++i) each[i] = within(i, enough);
  // What is left, to the pipeline that would end first with one more.
  using End = std::pair<double, size_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  const auto add = [&](size_t i) {
    ends.emplace(paces[i].first.value + static_cast<double>(each[i]) * next_of(i), i);
  };
  for (size_t i = 0; i < paces.size(); ++i) add(i);
  for (int64_t left = microbatches - std::accumulate(each.begin(), each.end(), int64_t{0});
       left > 0; --left) {
    const size_t i = ends.top().second;
    ends.pop();
    ++each[i];
    add(i);
  }
  return each;
}

Result<plan::Job> with_batch_by_speed(const plan::Job& job, const plan::Hardware* hardware) {
  if (!job.parallelism.microbatches_by_speed) return job;
  TRY(plan::check_divisions(job));
  plan::Job divided = job;
  divided.parallelism.microbatches_by_speed = false;
  const int64_t data = job.parallelism.data;
  const int64_t microbatches = job.training.global_batch / job.training.micro_batch;
  plan::Job even = divided;  // what a microbatch takes does not depend on their number
  even.training.global_batch = microbatches / data * data * job.training.micro_batch;
  const plan::Plan plan = TRY(make_plan(even, hardware));
  std::vector<Pace> paces;
  for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
    paces.push_back(pace_of(plan, replica));
  }
  std::vector<int64_t> each = divide_by_pace(paces, microbatches);
  const bool equal =
      std::adjacent_find(each.begin(), each.end(), std::not_equal_to<>()) == each.end();
  if (!equal) divided.parallelism.microbatches_per_replica = std::move(each);
  return divided;
}

}  // namespace tombolo::cost
