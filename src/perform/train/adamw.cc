#include "perform/train/adamw.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace tombolo::train {
namespace {

struct Factors {
  float keep;  // 1 - lr decay
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;        // lr / (1 - beta1^t)
  float root_correction;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
};

void update(const Factors& factors, int64_t size, float* w, const float* g, float* m, float* v) {
  const Factors f = factors;
  for (int64_t i = 0; i < size; ++i) {
    m[i] = f.beta1 * m[i] + f.one_minus_beta1 * g[i];
    v[i] = f.beta2 * v[i] + f.one_minus_beta2 * g[i] * g[i];
    const float root = std::sqrt(v[i]) * f.root_correction + f.epsilon;
    w[i] = f.keep * w[i] - f.step_size * m[i] / root;
  }
}

}  // namespace

void adamw(const AdamStep& step, std::span<float> weights, std::span<const float> gradients,
           std::span<float> first_moments, std::span<float> second_moments) {
  const size_t size = weights.size();
  CHECK(gradients.size() == size && first_moments.size() == size && second_moments.size() == size,
        "{} weights, {} gradients, {} and {} moments", size, gradients.size(), first_moments.size(),
        second_moments.size());
  CHECK(step.step >= 1, "Adam's step {} counts from 1", step.step);
  const auto t = static_cast<double>(step.step);
  const Factors factors{
      .keep = static_cast<float>(1 - step.learning_rate * step.weight_decay),
      .beta1 = static_cast<float>(step.beta1),
      .one_minus_beta1 = static_cast<float>(1 - step.beta1),
      .beta2 = static_cast<float>(step.beta2),
      .one_minus_beta2 = static_cast<float>(1 - step.beta2),
      .step_size = static_cast<float>(step.learning_rate / (1 - std::pow(step.beta1, t))),
      .root_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(step.beta2, t))),
      .epsilon = static_cast<float>(step.epsilon)};
  update(factors, static_cast<int64_t>(size), weights.data(), gradients.data(),
         first_moments.data(), second_moments.data());
}

double learning_rate(const plan::Optimizer& optimizer, int64_t steps, int64_t iteration) {
  const auto now = static_cast<double>(iteration);
  const auto warmup = static_cast<double>(optimizer.warmup_steps);
  if (iteration <= optimizer.warmup_steps) return optimizer.learning_rate * now / warmup;
  if (iteration >= steps) return optimizer.learning_rate_min;
  const double done = (now - warmup) / (static_cast<double>(steps) - warmup);
  const double range = optimizer.learning_rate - optimizer.learning_rate_min;
  return optimizer.learning_rate_min + range * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace tombolo::train
