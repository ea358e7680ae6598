#include "perform/update/momentum.h"

#include <cstddef>

#include "base/check.h"

namespace tombolo::update {

void momentum(const MomentumStep& step, std::span<float> weights, std::span<const float> gradients,
              std::span<float> buffer) {
  const size_t size = weights.size();
  CHECK(gradients.size() == size && buffer.size() == size, "{} weights, {} gradients, {} of buffer",
        size, gradients.size(), buffer.size());
  const auto rate = static_cast<float>(step.learning_rate);
  const auto keep = static_cast<float>(step.momentum);
  const auto decay = static_cast<float>(step.weight_decay);
  // Nesterov's looks one momentum further ahead; the factors make both one loop without branches.
  const float own = step.nesterov ? 1.0f : 0.0f;
  const float of_buffer = step.nesterov ? keep : 1.0f;
  float* const w = weights.data();
  const float* const g = gradients.data();
  float* const b = buffer.data();
  for (size_t i = 0; i < size; ++i) {
    const float gradient = g[i] + decay * w[i];
    b[i] = keep * b[i] + gradient;
    w[i] -= rate * (own * gradient + of_buffer * b[i]);
  }
}

}  // namespace tombolo::update
