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

void add_update(std::vector<Order>& ranks) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].push_back({ActionKind::kUpdate, static_cast<int32_t>(r), -1});
  }
}

}  // namespace tombolo::schedule
