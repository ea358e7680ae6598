#include "schedule/schedule.h"

#include <algorithm>

#include "base/check.h"
#include "schedule/passes.h"
#include "schedule/policy.h"

namespace tombolo::schedule {

using trace::Action;
using trace::ActionKind;

Shape shape_of(const plan::Plan& plan) {
  Shape shape{
      static_cast<int32_t>(plan.stages.size()), static_cast<int32_t>(plan.microbatches()), {}};
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    shape.recompute.push_back(plan.may_recompute(s) && plan.stages[s].cost.recompute.value > 0);
  }
  return shape;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Policy& policy : policies()) names.emplace_back(policy.name);
  return names;
}

Result<Schedule> build(const plan::Plan& plan) {
  for (const plan::Placement& placement : plan.ranks) {
    if (placement.stage != placement.rank || plan.ranks.size() != plan.stages.size()) {
      return unusable(fmt::format("rank {} holds stage {} of {}: a pipeline of one stage per rank, "
                                  "in order, is all that can be scheduled yet",
                                  placement.rank, placement.stage, plan.stages.size()),
                      "data = 1, and stage r on rank r");
    }
  }
  return build(plan.parallelism.schedule, shape_of(plan));
}

Result<Schedule> build(const std::string& name, const Shape& shape) {
  const Policy* policy = find_policy(name);
  if (!policy) {
    std::string known;
    for (const Policy& other : policies()) {
      known += fmt::format("{}\"{}\"", known.empty() ? "" : " or ", other.name);
    }
    return unusable(fmt::format("schedule = \"{}\": there is no such schedule yet", name), known);
  }
  CHECK(shape.stages >= 1 && shape.microbatches >= 1, "{} stages, {} micro-batches", shape.stages,
        shape.microbatches);
  CHECK(shape.recompute.empty() || shape.recompute.size() == static_cast<size_t>(shape.stages),
        "recompute is given for {} of {} stages", shape.recompute.size(), shape.stages);
  constexpr int64_t kActionsPerMicrobatch = 7;  // F, R, B and two messages in and two out
  if (int64_t{shape.stages} * shape.microbatches > kActionsMax / kActionsPerMicrobatch) {
    return unusable(fmt::format("{} stages x {} micro-batches are too many to schedule",
                                shape.stages, shape.microbatches),
                    "a larger micro_batch");
  }
  Schedule schedule{name, add_communication(policy->order_compute(shape), shape)};
  add_update(schedule.ranks);
  if (const Status sound = validate(schedule, shape); !sound) {
    CHECK(false, "policy {} made a broken schedule: {}", name, sound.error().text());
  }
  return schedule;
}

int64_t message_tag(const Action& action) {
  CHECK(trace::is_communication(action.kind), "{} is no message", trace::to_text(action));
  const bool gradient =
      action.kind == ActionKind::kSendGradient || action.kind == ActionKind::kReceiveGradient;
  return 2 * int64_t{action.microbatch} + (gradient ? 1 : 0);
}

}  // namespace tombolo::schedule
