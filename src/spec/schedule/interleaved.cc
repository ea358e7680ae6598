#include <algorithm>

#include "spec/schedule/policy.h"

namespace tombolo::schedule {
namespace {

struct Unit {
  int32_t chunk;
  int32_t microbatch;
};

// In which order the chunks of a rank meet the microbatches: groups of as many as there are
// positions; a group passes the first chunk, then the second, ...
std::vector<Unit> forward_order(const PipelineShape& shape) {
  std::vector<Unit> units;
  for (int32_t first = 0; first < shape.microbatches; first += shape.positions()) {
    for (int32_t chunk = 0; chunk < shape.chunks; ++chunk) {
      for (int32_t m = first; m < first + shape.positions(); ++m) units.push_back({chunk, m});
    }
  }
  return units;
}

}  // namespace

// A last group that is not full is ordered as if it were; microbatches beyond the last are then
// left out, which keeps the order of the others sound.
std::vector<RankActions> interleaved(const PipelineShape& shape, const Times&) {
  const std::vector<Unit> units = forward_order(shape);
  const int32_t positions = shape.positions();
  const auto all = static_cast<int32_t>(units.size());
  std::vector<RankActions> orders;
  for (int32_t position = 0; position < positions; ++position) {
    const int32_t warmup =
        std::min(all, 2 * (positions - 1 - position) + (shape.chunks - 1) * positions);
    const auto stage_of = [&](int32_t chunk) { return chunk * positions + position; };
    RankActions order;
    int32_t forward = 0;
    const auto append_forward = [&] {
      const Unit& unit = units[static_cast<size_t>(forward++)];
      if (unit.microbatch >= shape.microbatches) return;
      order.push_back({action::ActionKind::kForward, stage_of(unit.chunk), unit.microbatch});
    };
    while (forward < warmup) append_forward();
    for (const Unit& unit : units) {
      if (forward < all) append_forward();
      if (unit.microbatch >= shape.microbatches) continue;
      // Backward in the same order of microbatches, from the last chunk to the first.
      append_backward(shape, stage_of(shape.chunks - 1 - unit.chunk), unit.microbatch, order);
    }
    orders.push_back(std::move(order));
  }
  return orders;
}

}  // namespace tombolo::schedule
