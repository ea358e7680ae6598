#include <algorithm>
#include <deque>

#include "spec/schedule/dualpipe_order.h"
#include "spec/schedule/policy.h"

namespace tombolo::schedule {
namespace {

using action::ActionKind;

// The order of one position. Microbatches beyond the last are left out, so that few of them are
// ordered as many would be.
class DualPipeWriter {
 public:
  DualPipeWriter(const PipelineShape& shape, std::array<int32_t, 2> stages)
      : shape_(shape), stages_(stages) {}

  void forward(int chunk) { add({ActionKind::kForward, stages_[chunk], forwards_[chunk]++}); }
  void backward(int chunk, bool in_halves = false) {
    const int32_t m = backwards_[chunk]++;
    if (m >= shape_.microbatches) {
      if (in_halves) weights_.push_back({ActionKind::kBackwardWeight, stages_[chunk], m});
      return;
    }
    if (!in_halves) return append_backward(shape_, stages_[chunk], m, order_);
    append_backward_input(shape_, stages_[chunk], m, order_);
    weights_.push_back({ActionKind::kBackwardWeight, stages_[chunk], m});
  }
  // A pair that DualPipeV overlaps; where the shape has none, one after the other.
  void forward_and_backward(int forward_chunk, int backward_chunk) {
    if (std::max(forwards_[forward_chunk], backwards_[backward_chunk]) >= shape_.microbatches) {
      forward(forward_chunk);
      return backward(backward_chunk);
    }
    append_pair(shape_, {ActionKind::kForward, stages_[forward_chunk], forwards_[forward_chunk]++},
                stages_[backward_chunk], backwards_[backward_chunk]++, order_, pairs_);
  }
  void oldest_weight() {
    if (weights_.empty()) return;
    add(weights_.front());
    weights_.pop_front();
  }
  RankActions take() {
    while (!weights_.empty()) oldest_weight();
    return std::move(order_);
  }
  std::vector<Pair> take_pairs() { return std::move(pairs_); }

 private:
  void add(const action::Action& action) {
    if (action.microbatch < shape_.microbatches) order_.push_back(action);
  }

  const PipelineShape& shape_;
  std::array<int32_t, 2> stages_;
  int32_t forwards_[2] = {0, 0};
  int32_t backwards_[2] = {0, 0};
  std::deque<action::Action> weights_;  // halves that are put off, oldest first
  RankActions order_;
  std::vector<Pair> pairs_;
};

}  // namespace

detail::DualPipePosition detail::dualpipe_position(const PipelineShape& shape,
                                                   std::array<int32_t, 2> stages, int32_t position,
                                                   int32_t of) {
  const int32_t microbatches = std::max(2 * of, shape.microbatches);
  const int32_t after = of - 1 - position;
  DualPipeWriter out(shape, stages);
  for (int32_t i = 0; i < 2 * after; ++i) out.forward(0);
  for (int32_t i = 0; i < position + 1; ++i) {
    out.forward(0);
    out.forward(1);
  }
  for (int32_t i = 0; i < after; ++i) {
    out.backward(1, true);
    out.oldest_weight();
    out.forward(1);
  }
  for (int32_t i = 0; i < microbatches - 2 * of + position + 1; ++i) {
    out.forward_and_backward(0, 1);
    out.forward_and_backward(1, 0);
  }
  for (int32_t i = 0; i < after; ++i) {
    out.backward(1);
    out.forward_and_backward(1, 0);
  }
  // From the middle on weights' halves are put off, to fill the end.
  bool in_halves = false;
  for (int32_t i = 0; i < position + 1; ++i) {
    const bool middle = i == (position + 1) / 2;
    if (middle && position % 2 == 1) in_halves = true;
    out.backward(1, in_halves);
    if (middle && position % 2 == 0) in_halves = true;
    out.backward(0, in_halves);
  }
  for (int32_t i = 0; i < after; ++i) {
    out.oldest_weight();
    out.backward(0, true);
  }
  return {out.take(), out.take_pairs()};
}

namespace {

detail::DualPipePosition folded_position(const PipelineShape& shape, int32_t position) {
  return detail::dualpipe_position(shape, {position, shape.stages - 1 - position}, position,
                                   shape.positions());
}

}  // namespace

std::vector<RankActions> dualpipe_v(const PipelineShape& shape, const Times&) {
  std::vector<RankActions> orders;
  for (int32_t position = 0; position < shape.positions(); ++position) {
    orders.push_back(folded_position(shape, position).order);
  }
  return orders;
}

std::vector<std::vector<Pair>> dualpipe_v_pairs(const PipelineShape& shape) {
  std::vector<std::vector<Pair>> pairs;
  for (int32_t position = 0; position < shape.positions(); ++position) {
    pairs.push_back(folded_position(shape, position).pairs);
  }
  return pairs;
}

}  // namespace tombolo::schedule
