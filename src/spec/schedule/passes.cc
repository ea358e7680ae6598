#include "spec/schedule/passes.h"

namespace tombolo::schedule {

using action::Action;
using action::ActionKind;

std::vector<Order> add_communication(const std::vector<Order>& compute, const Shape& shape,
                                     RecomputeWhen when) {
  std::vector<Order> ranks;
  for (const Order& actions : compute) {
    Order out;
    for (const Action& action : actions) {
      const bool from_previous = shape.crosses(action.stage - 1);
      const bool from_next = shape.crosses(action.stage);
      const bool forward = action.kind == ActionKind::kForward;
      const bool backward =
          action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput;
      const bool recomputes_first =
          when == RecomputeWhen::kWithGradient && shape.recomputes(action.stage);
      const bool opens_backward =
          recomputes_first ? action.kind == ActionKind::kRecompute : backward;
      const auto add = [&](ActionKind kind) {
        out.push_back({kind, action.stage, action.microbatch});
      };
      if (forward && from_previous) add(ActionKind::kReceiveActivation);
      if (opens_backward && from_next) add(ActionKind::kReceiveGradient);
      out.push_back(action);
      if (forward && from_next) add(ActionKind::kSendActivation);
      if (backward && from_previous) add(ActionKind::kSendGradient);
    }
    ranks.push_back(std::move(out));
  }
  return ranks;
}

std::vector<Order> replicate(const std::vector<Order>& positions, const Shape& shape) {
  std::vector<Order> ranks;
  for (int32_t rank = 0; rank < shape.ranks(); ++rank) {
    ranks.push_back(positions[static_cast<size_t>(rank / shape.replicas)]);
  }
  return ranks;
}

void add_update(std::vector<Order>& ranks, const Shape& shape) {
  for (int32_t rank = 0; rank < shape.ranks(); ++rank) {
    const std::vector<int32_t> stages = shape.stages_at(rank / shape.replicas);
    for (const int32_t stage : stages) {
      if (shape.replicas > 1) ranks[rank].push_back({ActionKind::kReduceGradients, stage, -1});
    }
    for (const int32_t stage : stages) ranks[rank].push_back({ActionKind::kUpdate, stage, -1});
  }
}

}  // namespace tombolo::schedule
