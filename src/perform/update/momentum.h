// SGD with momentum, as torch.optim.SGD defines it without dampening:
//
//   g = g + decay w       b = momentum b + g       (b = 0 before the first step)
//   w = w - lr b          or, Nesterov's:  w = w - lr (g + momentum b)
//
// The decay passes through the momentum; AdamW's does not.
#pragma once

#include <span>

namespace tombolo::update {

struct MomentumStep {
  double learning_rate = 0;
  double momentum = 0.9;
  double weight_decay = 0;
  bool nesterov = false;
};

// The three have the same length. One pass over memory: 20 bytes per number.
void momentum(const MomentumStep& step, std::span<float> weights, std::span<const float> gradients,
              std::span<float> buffer);

}  // namespace tombolo::update
