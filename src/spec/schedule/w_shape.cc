#include <algorithm>
#include <utility>

#include "spec/schedule/policy.h"

namespace tombolo::schedule {

// In slots: micro-batch i enters every second one, goes down the positions and back up, which takes
// 2 P slots, and its backward follows the same way. So each slot of a position holds at most one
// forward and one backward; they meet where the backward of micro-batch i enters with the forward
// of i + P. The forward of such a pair comes first.
std::vector<Order> w_shape(const Shape& shape, const Times&) {
  const int32_t positions = shape.positions();
  std::vector<Order> orders;
  for (int32_t position = 0; position < positions; ++position) {
    const int32_t down = position;
    const int32_t up = shape.stages - 1 - position;
    struct Unit {
      int64_t slot;
      bool backward;
      int32_t stage;
      int32_t microbatch;
    };
    std::vector<Unit> units;
    for (int32_t m = 0; m < shape.microbatches; ++m) {
      const int64_t enters = 2 * int64_t{m};
      const int64_t returns = enters + shape.stages;
      units.push_back({enters + down, false, down, m});
      units.push_back({enters + up, false, up, m});
      units.push_back({returns + down, true, up, m});  // backward passes the last stages first
      units.push_back({returns + up, true, down, m});
    }
    std::sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) {
      return std::pair{a.slot, a.backward} < std::pair{b.slot, b.backward};
    });
    Order order;
    for (const Unit& unit : units) {
      if (unit.backward) {
        append_backward(shape, unit.stage, unit.microbatch, order);
      } else {
        order.push_back({action::ActionKind::kForward, unit.stage, unit.microbatch});
      }
    }
    orders.push_back(std::move(order));
  }
  return orders;
}

}  // namespace tombolo::schedule
