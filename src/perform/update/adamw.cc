#include "perform/update/adamw.h"

#include <cmath>

#include "base/check.h"
#include "base/vectorised.h"

namespace tombolo::update {
namespace {

struct Factors {
  float keep;  // 1 - lr decay
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;        // lr / (1 - beta1^t)
  float root_correction;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
};

TOMBOLO_VECTORISED
void step_adam(const Factors& factors, int64_t size, float* __restrict w, const float* __restrict g,
               float* __restrict m, float* __restrict v) {
  const Factors f = factors;
  for (int64_t i = 0; i < size; ++i) {
    m[i] = f.beta1 * m[i] + f.one_minus_beta1 * g[i];
    v[i] = f.beta2 * v[i] + f.one_minus_beta2 * g[i] * g[i];
    const float root = __builtin_sqrtf(v[i]) * f.root_correction + f.epsilon;
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
  step_adam(factors, static_cast<int64_t>(size), weights.data(), gradients.data(),
            first_moments.data(), second_moments.data());
}

}  // namespace tombolo::update
