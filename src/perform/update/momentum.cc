#include "perform/update/momentum.h"

#include <cstddef>

#include "base/check.h"
#include "base/vectorised.h"

namespace tombolo::update {
namespace {

struct Factors {
  float rate, keep, decay;
  // Nesterov's looks one momentum further ahead; these make both one loop without branches.
  float own, of_buffer;
};

TOMBOLO_VECTORISED
void step_momentum(const Factors& factors, size_t size, float* __restrict w,
                   const float* __restrict g, float* __restrict b) {
  const Factors f = factors;
  for (size_t i = 0; i < size; ++i) {
    const float gradient = g[i] + f.decay * w[i];
    b[i] = f.keep * b[i] + gradient;
    w[i] -= f.rate * (f.own * gradient + f.of_buffer * b[i]);
  }
}

}  // namespace

void momentum(const MomentumStep& step, std::span<float> weights, std::span<const float> gradients,
              std::span<float> buffer) {
  const size_t size = weights.size();
  CHECK(gradients.size() == size && buffer.size() == size, "{} weights, {} gradients, {} of buffer",
        size, gradients.size(), buffer.size());
  const auto keep = static_cast<float>(step.momentum);
  step_momentum({.rate = static_cast<float>(step.learning_rate),
                 .keep = keep,
                 .decay = static_cast<float>(step.weight_decay),
                 .own = step.nesterov ? 1.0f : 0.0f,
                 .of_buffer = step.nesterov ? keep : 1.0f},
                size, weights.data(), gradients.data(), buffer.data());
}

}  // namespace tombolo::update
