#include <algorithm>

#include "spec/schedule/policy.h"

namespace tombolo::schedule {

// As 1F1B, with the input half in place of the backward. The weight half of microbatch i follows
// the input half of microbatch i + s at stage s, so that every stage holds as much as the first
// one and gradients start on their way up as early as they can.
std::vector<RankActions> zb_h1(const PipelineShape& shape, const Times&) {
  std::vector<RankActions> orders;
  for (int32_t stage = 0; stage < shape.stages; ++stage) {
    RankActions order;
    const int32_t warmup = std::min(shape.microbatches, shape.stages - 1 - stage);
    int32_t forward = 0;
    while (forward < warmup) order.push_back({action::ActionKind::kForward, stage, forward++});
    int32_t weight = 0;
    for (int32_t backward = 0; backward < shape.microbatches; ++backward) {
      if (forward < shape.microbatches) {
        order.push_back({action::ActionKind::kForward, stage, forward++});
      }
      append_backward_input(shape, stage, backward, order);
      if (backward >= stage)
        order.push_back({action::ActionKind::kBackwardWeight, stage, weight++});
    }
    while (weight < shape.microbatches) {
      order.push_back({action::ActionKind::kBackwardWeight, stage, weight++});
    }
    orders.push_back(std::move(order));
  }
  return orders;
}

}  // namespace tombolo::schedule
