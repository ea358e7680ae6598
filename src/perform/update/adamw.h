// AdamW: Adam with weight decay that does not pass through the moments.
//
//   m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g^2
//   w = w - lr decay w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
//
// Loshchilov & Hutter, Decoupled Weight Decay Regularization (2019), algorithm 2, with their
// schedule multiplier in lr. One pass over four arrays, hence bound by memory: 28 bytes per number.
// No reductions, so the result does not depend on how the compiler vectorises.
#pragma once

#include <cstdint>
#include <span>

namespace tombolo::update {

struct AdamStep {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
  int64_t step = 1;  // t, counts from 1
};

// The four have the same length.
void adamw(const AdamStep& step, std::span<float> weights, std::span<const float> gradients,
           std::span<float> first_moments, std::span<float> second_moments);

}  // namespace tombolo::update
