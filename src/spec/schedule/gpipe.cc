#include "spec/schedule/policy.h"

namespace tombolo::schedule {

std::vector<RankActions> gpipe(const PipelineShape& shape, const Times&) {
  std::vector<RankActions> ranks(shape.stages);
  for (int32_t stage = 0; stage < shape.stages; ++stage) {
    RankActions& order = ranks[stage];
    for (int32_t m = 0; m < shape.microbatches; ++m) {
      order.push_back({action::ActionKind::kForward, stage, m});
    }
    for (int32_t m = 0; m < shape.microbatches; ++m) append_backward(shape, stage, m, order);
  }
  return ranks;
}

}  // namespace tombolo::schedule
