#include <algorithm>

#include "spec/schedule/policy.h"

namespace tombolo::schedule {
namespace {

using action::ActionKind;

// The order of one position, action by action. Microbatches beyond the last are left out, so that
// few of them are ordered as many would be.
class Writer {
 public:
  Writer(const PipelineShape& shape, int32_t position)
      : shape_(shape), stages_{position, shape.stages - 1 - position} {}

  void forward(int chunk) { add(ActionKind::kForward, chunk, forwards_[chunk]++); }
  void input(int chunk) {
    const int32_t m = inputs_[chunk]++;
    if (m < shape_.microbatches) append_backward_input(shape_, stages_[chunk], m, order_);
  }
  void weight(int chunk) { add(ActionKind::kBackwardWeight, chunk, weights_[chunk]++); }
  void backward(int chunk) {
    input(chunk);
    weight(chunk);
  }
  int32_t forwards(int chunk) const { return forwards_[chunk]; }
  void remaining_weights(int chunk) {
    while (weights_[chunk] < inputs_[chunk]) weight(chunk);
  }
  RankActions take() { return std::move(order_); }

 private:
  void add(ActionKind kind, int chunk, int32_t m) {
    if (m < shape_.microbatches) order_.push_back({kind, stages_[chunk], m});
  }

  const PipelineShape& shape_;
  int32_t stages_[2];
  int32_t forwards_[2] = {0, 0};
  int32_t inputs_[2] = {0, 0};
  int32_t weights_[2] = {0, 0};
  RankActions order_;
};

}  // namespace

// Chunk 0 goes down the positions, chunk 1 back up.
std::vector<RankActions> zb_v(const PipelineShape& shape, const Times&) {
  const int32_t positions = shape.positions();
  const int32_t microbatches = std::max(2 * positions - 1, shape.microbatches);
  std::vector<RankActions> orders;
  for (int32_t position = 0; position < positions; ++position) {
    Writer out(shape, position);
    for (int32_t i = 0; i < 2 * (positions - position) - 1; ++i) out.forward(0);
    for (int32_t i = 0; i < position; ++i) {
      out.forward(1);
      out.forward(0);
    }
    for (int32_t i = 0; i < positions - position; ++i) {
      out.forward(1);
      out.backward(1);
    }
    while (out.forwards(1) < out.forwards(0) || out.forwards(0) < microbatches) {
      if (out.forwards(0) < microbatches) out.forward(0);
      out.backward(0);
      out.forward(1);
      out.backward(1);
    }
    for (int32_t i = 0; i < position; ++i) {
      out.input(0);
      out.input(1);
    }
    for (int32_t i = 0; i < positions - position; ++i) {
      out.input(0);
      out.weight(0);
    }
    out.remaining_weights(1);
    out.remaining_weights(0);
    orders.push_back(out.take());
  }
  return orders;
}

}  // namespace tombolo::schedule
