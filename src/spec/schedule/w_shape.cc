#include <algorithm>
#include <utility>

#include "spec/schedule/policy.h"

namespace tombolo::schedule {
namespace {

struct Position {
  RankActions order;
  std::vector<Pair> pairs;
};

// In slots: microbatch i enters every second one, goes down the positions and back up, which takes
// 2 P slots, and its backward follows the same way. So each slot of a position holds at most one
// forward and one backward; they meet where the backward of microbatch i enters with the forward
// of i + P. The forward of such a pair comes first.
Position order_position(const PipelineShape& shape, int32_t position) {
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
  Position out;
  for (size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = units[i];
    const action::Action forward{action::ActionKind::kForward, unit.stage, unit.microbatch};
    if (unit.backward) {
      append_backward(shape, unit.stage, unit.microbatch, out.order);
    } else if (i + 1 < units.size() && units[i + 1].slot == unit.slot) {
      const Unit& other = units[++i];
      append_pair(shape, forward, other.stage, other.microbatch, out.order, out.pairs);
    } else {
      out.order.push_back(forward);
    }
  }
  return out;
}

}  // namespace

std::vector<RankActions> w_shape(const PipelineShape& shape, const Times&) {
  std::vector<RankActions> orders;
  for (int32_t position = 0; position < shape.positions(); ++position) {
    orders.push_back(order_position(shape, position).order);
  }
  return orders;
}

std::vector<std::vector<Pair>> w_shape_pairs(const PipelineShape& shape) {
  std::vector<std::vector<Pair>> pairs;
  for (int32_t position = 0; position < shape.positions(); ++position) {
    pairs.push_back(order_position(shape, position).pairs);
  }
  return pairs;
}

}  // namespace tombolo::schedule
