#include "schedule/schedule.h"

#include <algorithm>

#include "base/check.h"
#include "schedule/passes.h"
#include "schedule/policy.h"

namespace tombolo::schedule {

using trace::Action;
using trace::ActionKind;

Shape shape_of(const plan::Plan& plan) {
  Shape shape{.stages = static_cast<int32_t>(plan.stages.size()),
              .microbatches = static_cast<int32_t>(plan.microbatches()),
              .replicas = plan.replicas()};
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
  CHECK(shape.stages >= 1 && shape.microbatches >= 1 && shape.replicas >= 1,
        "{} stages, {} micro-batches, {} replicas", shape.stages, shape.microbatches,
        shape.replicas);
  CHECK(shape.recompute.empty() || shape.recompute.size() == static_cast<size_t>(shape.stages),
        "recompute is given for {} of {} stages", shape.recompute.size(), shape.stages);
  constexpr int64_t kActionsPerMicrobatch = 7;  // F, R, B and two messages in and two out
  if (int64_t{shape.stages} * shape.replicas * shape.microbatches >
      kActionsMax / kActionsPerMicrobatch) {
    return unusable(
        fmt::format("{} stages x {} replicas x {} micro-batches are too many to schedule",
                    shape.stages, shape.replicas, shape.microbatches),
        "a larger micro_batch");
  }
  Schedule schedule{name, replicate(add_communication(policy->order_compute(shape), shape), shape)};
  add_update(schedule.ranks, shape);
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
