#include "predict/cost/batch_by_speed.h"

#include <algorithm>

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
  const int64_t stages = job.parallelism.pipeline;
  const bool enough = microbatches >= data * stages;  // else refused, with the reason
  std::vector<int64_t> each =
      divide_by_pace(paces, microbatches, job.parallelism.adaptive_batch && enough ? stages : 1);
  const bool equal =
      std::adjacent_find(each.begin(), each.end(), std::not_equal_to<>()) == each.end();
  if (!equal) divided.parallelism.microbatches_per_replica = std::move(each);
  return divided;
}

}  // namespace tombolo::cost
