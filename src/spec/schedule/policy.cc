#include "spec/schedule/policy.h"

#include <array>

namespace tombolo::schedule {
namespace {

using OrderFunction = std::vector<RankActions>(const PipelineShape&, const Times&);
using PairsFunction = std::vector<std::vector<Pair>>(const PipelineShape&);
using RulesFunction = Rules(const PipelineShape&, const Times&, layout::Discipline);

constexpr Policy ordered(OrderFunction* order, PairsFunction* pairs = nullptr) {
  return {.order_compute = order, .pairs = pairs};
}
constexpr Policy ruled(RulesFunction* rules) { return {.rules = rules}; }

constexpr std::array kPolicies{
#define SCHEDULE(kind, name, stages, sharing, traits, function, citation) function,
#include "spec/layout/schedules.inc"
#undef SCHEDULE
};
static_assert(kPolicies.size() == layout::kSchedules.size());

}  // namespace

const Policy& policy_of(layout::ScheduleKind kind) { return kPolicies[static_cast<size_t>(kind)]; }

void append_backward(const PipelineShape& shape, int32_t stage, int32_t microbatch,
                     RankActions& order) {
  if (shape.recomputes(stage)) {
    order.push_back({action::ActionKind::kRecompute, stage, microbatch});
  }
  order.push_back({action::ActionKind::kBackward, stage, microbatch});
}

void append_pair(const PipelineShape& shape, const action::Action& forward, int32_t backward_stage,
                 int32_t microbatch, RankActions& order, std::vector<Pair>& pairs) {
  const action::Action backward{action::ActionKind::kBackward, backward_stage, microbatch};
  if (!shape.pairs) {
    order.push_back(forward);
    return append_backward(shape, backward_stage, microbatch, order);
  }
  if (shape.recomputes(backward_stage)) {
    order.push_back({action::ActionKind::kRecompute, backward_stage, microbatch});
  }
  order.insert(order.end(), {forward, backward});
  pairs.push_back({forward, backward});
}

void append_backward_input(const PipelineShape& shape, int32_t stage, int32_t microbatch,
                           RankActions& order) {
  if (shape.recomputes(stage)) {
    order.push_back({action::ActionKind::kRecompute, stage, microbatch});
  }
  order.push_back({action::ActionKind::kBackwardInput, stage, microbatch});
}

}  // namespace tombolo::schedule
