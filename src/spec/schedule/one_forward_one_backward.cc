#include <algorithm>

#include "spec/schedule/policy.h"

namespace tombolo::schedule {

std::vector<RankActions> one_forward_one_backward(const PipelineShape& shape, const Times&) {
  std::vector<RankActions> ranks(shape.stages);
  for (int32_t stage = 0; stage < shape.stages; ++stage) {
    RankActions& order = ranks[stage];
    const int32_t warmup = std::min(shape.microbatches, shape.stages - 1 - stage);
    int32_t forward = 0;
    for (; forward < warmup; ++forward) {
      order.push_back({action::ActionKind::kForward, stage, forward});
    }
    for (int32_t backward = 0; backward < shape.microbatches; ++backward) {
      if (forward < shape.microbatches) {
        order.push_back({action::ActionKind::kForward, stage, forward++});
      }
      append_backward(shape, stage, backward, order);
    }
  }
  return ranks;
}

}  // namespace tombolo::schedule
