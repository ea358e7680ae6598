// Optimizers for gradients of which only some blocks were received: work and memory traffic are
// proportional to these. A block is 16 numbers, a cache line (perform/compress/blocks.h); it is
// received as a whole, and the rest of the gradient is zero.
//
// With a state, a block remembers the step of its last gradient and catches up when the next one
// comes, instead of moving in every step:
//
//   SGD       has no state: equal to a dense step, bit by bit.
//   momentum  catches up exactly, as long as rate and momentum stay: b and w are what dense steps
//             with a gradient of zero would have made of them, but for rounding. Until then, w lags
//             by at most rate |b| momentum / (1 - momentum).
//   AdamW     moments and weight decay catch up exactly. The movement that dense Adam would have
//             made without gradients is left out: at most rate * r (rho + rho^2 + ...), with
//             rho = beta1 / sqrt(beta2) and, by Cauchy and Schwarz, r = |m| / sqrt(v) at most
//             (1 - beta1) / sqrt((1 - beta2) (1 - rho^2)): 14 learning rates with 0.9 and 0.95.
//             With error feedback it would mostly repeat what the residual brings later.
//
// StellaTrain (2024, 3.1) neither moves nor decays what gets no gradient.
#pragma once

#include <cstdint>
#include <span>

#include "perform/update/adamw.h"
#include "perform/update/momentum.h"

namespace tombolo::update {

inline constexpr int64_t kSparseBlock = 16;

struct SparseGradient {
  std::span<const uint32_t> blocks;  // ascending
  std::span<const float> values;     // 16 each; beyond the tensor's end they are ignored
};

// The blocks of this many numbers: the length of `last_steps` below, which are 0 at first.
int64_t sparse_blocks(int64_t numbers);

// w = w - rate g. 192 bytes of memory a block.
void sparse_sgd(double rate, const SparseGradient& gradient, std::span<float> weights);

// Step t counts from 1 and grows. No weight decay, which would pass through the momentum of all.
void sparse_momentum(const MomentumStep& step, uint32_t t, const SparseGradient& gradient,
                     std::span<float> weights, std::span<float> buffer,
                     std::span<uint32_t> last_steps);

// All blocks catch up to the end of step t. Call it before weights are read elsewhere or the rate
// changes.
void settle_momentum(const MomentumStep& step, uint32_t t, std::span<float> weights,
                     std::span<float> buffer, std::span<uint32_t> last_steps);

// step.step is t, at most 2^32 - 1.
void sparse_adamw(const AdamStep& step, const SparseGradient& gradient, std::span<float> weights,
                  std::span<float> first_moments, std::span<float> second_moments,
                  std::span<uint32_t> last_steps);

}  // namespace tombolo::update
