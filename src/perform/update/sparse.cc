#include "perform/update/sparse.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/check.h"
#include "base/vectorised.h"

namespace tombolo::update {
namespace {

constexpr size_t kAhead = 32;  // blocks whose lines are asked for before they are needed

// base^exponent by squaring: the same bits everywhere, which std::pow does not promise.
double power(double base, uint32_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result *= base;
    base *= base;
  }
  return result;
}

// Calls work(i, begin, count) for each block i, whose numbers are [begin, begin + count), and asks for
// its lines of `arrays` some blocks before.
template <size_t kArrays, class Work>
__attribute__((always_inline)) inline void for_each_block(const SparseGradient& gradient,
                                                          int64_t size,
                                                          const std::array<float*, kArrays>& arrays,
                                                          const Work& work) {
  const size_t blocks = gradient.blocks.size();
  CHECK(gradient.values.size() == blocks * kSparseBlock, "{} values of {} blocks",
        gradient.values.size(), blocks);
  if (blocks == 0) return;
  const int64_t last = int64_t{gradient.blocks.back()} * kSparseBlock;
  CHECK(last < size, "block {} of {} numbers", gradient.blocks.back(), size);
  for (size_t i = 0; i + 1 < blocks; ++i) {
    const int64_t next = gradient.blocks[std::min(i + kAhead, blocks - 1)];
    for (float* const array : arrays) __builtin_prefetch(array + next * kSparseBlock, 1);
    work(i, int64_t{gradient.blocks[i]} * kSparseBlock, kSparseBlock);
  }
  work(blocks - 1, last, std::min(kSparseBlock, size - last));
}

TOMBOLO_VECTORISED
void step_sgd(float rate, const float* __restrict g, float* __restrict w) {
  for (int64_t i = 0; i < kSparseBlock; ++i) w[i] -= rate * g[i];
}

// What a step of momentum is made of.
struct Momentum {
  float rate, keep;
  float own, of_buffer;  // Nesterov's looks one momentum further ahead
};

Momentum factors_of(const MomentumStep& step) {
  CHECK(step.weight_decay == 0, "a weight decay of {} without all weights", step.weight_decay);
  CHECK(step.momentum >= 0 && step.momentum < 1, "a momentum of {}", step.momentum);
  const auto keep = static_cast<float>(step.momentum);
  return {.rate = static_cast<float>(step.learning_rate),
          .keep = keep,
          .own = step.nesterov ? 1.0f : 0.0f,
          .of_buffer = step.nesterov ? keep : 1.0f};
}

// After `missed` steps without a gradient the buffer has kept momentum^missed of itself, and the
// weights have moved by the sum of what it was on the way.
struct Missed {
  float kept = 1, moved = 0;
};

Missed missed_steps(const MomentumStep& step, uint32_t missed) {
  if (missed == 0) return {};
  const double kept = power(step.momentum, missed);
  const double sum = step.momentum * (1 - kept) / (1 - step.momentum);
  const double share = step.nesterov ? step.momentum : 1.0;
  return {static_cast<float>(kept), static_cast<float>(step.learning_rate * share * sum)};
}

TOMBOLO_VECTORISED
void catch_up(Missed missed, int64_t count, float* __restrict w, float* __restrict b) {
  for (int64_t i = 0; i < count; ++i) {
    w[i] -= missed.moved * b[i];
    b[i] *= missed.kept;
  }
}

TOMBOLO_VECTORISED
void step_momentum(Momentum f, int64_t count, const float* __restrict g, float* __restrict w,
                   float* __restrict b) {
  for (int64_t i = 0; i < count; ++i) {
    b[i] = f.keep * b[i] + g[i];
    w[i] -= f.rate * (f.own * g[i] + f.of_buffer * b[i]);
  }
}

struct LazyAdam {
  float keep;  // of the weights, over the steps since the last gradient
  float beta1, one_minus_beta1, beta2, one_minus_beta2;  // beta: over these steps, too
  float step_size, root_correction, epsilon;
};

LazyAdam factors_of(const AdamStep& step, uint32_t elapsed) {
  const auto t = static_cast<uint32_t>(step.step);
  return {.keep = static_cast<float>(power(1 - step.learning_rate * step.weight_decay, elapsed)),
          .beta1 = static_cast<float>(power(step.beta1, elapsed)),
          .one_minus_beta1 = static_cast<float>(1 - step.beta1),
          .beta2 = static_cast<float>(power(step.beta2, elapsed)),
          .one_minus_beta2 = static_cast<float>(1 - step.beta2),
          .step_size = static_cast<float>(step.learning_rate / (1 - power(step.beta1, t))),
          .root_correction = static_cast<float>(1 / std::sqrt(1 - power(step.beta2, t))),
          .epsilon = static_cast<float>(step.epsilon)};
}

TOMBOLO_VECTORISED
void step_lazy_adam(const LazyAdam& factors, int64_t count, const float* __restrict g,
                    float* __restrict w, float* __restrict m, float* __restrict v) {
  const LazyAdam f = factors;  // nothing that is written can be one of them
  for (int64_t i = 0; i < count; ++i) {
    m[i] = f.beta1 * m[i] + f.one_minus_beta1 * g[i];
    v[i] = f.beta2 * v[i] + f.one_minus_beta2 * g[i] * g[i];
    const float root = __builtin_sqrtf(v[i]) * f.root_correction + f.epsilon;
    w[i] = f.keep * w[i] - f.step_size * m[i] / root;
  }
}

void check_state(size_t size, size_t state, size_t last_steps) {
  CHECK(state == size && last_steps == static_cast<size_t>(sparse_blocks(int64_t(size))),
        "{} weights, {} numbers and {} steps of state", size, state, last_steps);
}

}  // namespace

int64_t sparse_blocks(int64_t numbers) { return (numbers + kSparseBlock - 1) / kSparseBlock; }

void sparse_sgd(double rate, const SparseGradient& gradient, std::span<float> weights) {
  const auto by = static_cast<float>(rate);
  float* const all = weights.data();
  for_each_block(gradient, static_cast<int64_t>(weights.size()), std::array{all},
                 [&](size_t i, int64_t begin, int64_t count) {
                   const float* const g = gradient.values.data() + i * kSparseBlock;
                   if (count == kSparseBlock) return step_sgd(by, g, all + begin);
                   for (int64_t k = 0; k < count; ++k) all[begin + k] -= by * g[k];
                 });
}

void sparse_momentum(const MomentumStep& step, uint32_t t, const SparseGradient& gradient,
                     std::span<float> weights, std::span<float> buffer,
                     std::span<uint32_t> last_steps) {
  check_state(weights.size(), buffer.size(), last_steps.size());
  const Momentum factors = factors_of(step);
  for_each_block(gradient, static_cast<int64_t>(weights.size()),
                 std::array{weights.data(), buffer.data()},
                 [&](size_t i, int64_t begin, int64_t count) {
                   const uint32_t block = gradient.blocks[i];
                   CHECK(last_steps[block] < t, "step {} after {}", t, last_steps[block]);
                   float* const w = weights.data() + begin;
                   float* const b = buffer.data() + begin;
                   const uint32_t missed = t - 1 - last_steps[block];
                   if (missed > 0) catch_up(missed_steps(step, missed), count, w, b);
                   step_momentum(factors, count, gradient.values.data() + i * kSparseBlock, w, b);
                   last_steps[block] = t;
                 });
}

void settle_momentum(const MomentumStep& step, uint32_t t, std::span<float> weights,
                     std::span<float> buffer, std::span<uint32_t> last_steps) {
  check_state(weights.size(), buffer.size(), last_steps.size());
  factors_of(step);  // checks them
  const auto size = static_cast<int64_t>(weights.size());
  for (size_t block = 0; block < last_steps.size(); ++block) {
    CHECK(last_steps[block] <= t, "step {} after {}", t, last_steps[block]);
    const int64_t begin = static_cast<int64_t>(block) * kSparseBlock;
    catch_up(missed_steps(step, t - last_steps[block]), std::min(kSparseBlock, size - begin),
             weights.data() + begin, buffer.data() + begin);
    last_steps[block] = t;
  }
}

void sparse_adamw(const AdamStep& step, const SparseGradient& gradient, std::span<float> weights,
                  std::span<float> first_moments, std::span<float> second_moments,
                  std::span<uint32_t> last_steps) {
  check_state(weights.size(), first_moments.size(), last_steps.size());
  check_state(weights.size(), second_moments.size(), last_steps.size());
  CHECK(step.step >= 1 && step.step <= UINT32_MAX, "Adam's step {} counts from 1", step.step);
  const auto t = static_cast<uint32_t>(step.step);
  uint32_t elapsed = 1;
  LazyAdam factors = factors_of(step, elapsed);  // the same for blocks that waited as long
  for_each_block(gradient, static_cast<int64_t>(weights.size()),
                 std::array{weights.data(), first_moments.data(), second_moments.data()},
                 [&](size_t i, int64_t begin, int64_t count) {
                   const uint32_t block = gradient.blocks[i];
                   CHECK(last_steps[block] < t, "step {} after {}", t, last_steps[block]);
                   if (t - last_steps[block] != elapsed) {
                     elapsed = t - last_steps[block];
                     factors = factors_of(step, elapsed);
                   }
                   step_lazy_adam(factors, count, gradient.values.data() + i * kSparseBlock,
                                  weights.data() + begin, first_moments.data() + begin,
                                  second_moments.data() + begin);
                   last_steps[block] = t;
                 });
}

}  // namespace tombolo::update
