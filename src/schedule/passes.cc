#include "schedule/passes.h"

namespace tombolo::schedule {

using trace::Action;
using trace::ActionKind;

std::vector<Order> add_communication(const std::vector<Order>& compute, const Shape& shape) {
  std::vector<Order> ranks;
  for (const Order& actions : compute) {
    Order out;
    for (const Action& action : actions) {
      const bool first = action.stage == 0;
      const bool last = action.stage + 1 == shape.stages;
      const bool forward = action.kind == ActionKind::kForward;
      const bool backward = action.kind == ActionKind::kBackward;
      const bool opens_backward = shape.recomputes(action.stage)
                                      ? action.kind == ActionKind::kRecompute
                                      : action.kind == ActionKind::kBackward;
      const auto add = [&](ActionKind kind) {
        out.push_back({kind, action.stage, action.microbatch});
      };
      if (forward && !first) add(ActionKind::kReceiveActivation);
      if (opens_backward && !last) add(ActionKind::kReceiveGradient);
      out.push_back(action);
      if (forward && !last) add(ActionKind::kSendActivation);
      if (backward && !first) add(ActionKind::kSendGradient);
    }
    ranks.push_back(std::move(out));
  }
  return ranks;
}

std::vector<Order> replicate(const std::vector<Order>& stages, const Shape& shape) {
  std::vector<Order> ranks;
  for (int32_t rank = 0; rank < shape.ranks(); ++rank) {
    ranks.push_back(stages[shape.stage_of(rank)]);
  }
  return ranks;
}

void add_update(std::vector<Order>& ranks, const Shape& shape) {
  for (int32_t rank = 0; rank < shape.ranks(); ++rank) {
    const int32_t stage = shape.stage_of(rank);
    if (shape.replicas > 1) ranks[rank].push_back({ActionKind::kReduceGradients, stage, -1});
    ranks[rank].push_back({ActionKind::kUpdate, stage, -1});
  }
}

}  // namespace tombolo::schedule
