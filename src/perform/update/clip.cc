#include "perform/update/clip.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace tombolo::update {

double squares(std::span<const float> gradients) {
  constexpr size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  const size_t whole = gradients.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const auto x = static_cast<double>(gradients[i + lane]);
      sums[lane] += x * x;
    }
  }
  double sum = 0;
  for (const double lane : sums) sum += lane;
  for (const float rest : gradients.subspan(whole)) {
    sum += static_cast<double>(rest) * static_cast<double>(rest);
  }
  return sum;
}

double clip_factor(double norm, double limit) {
  CHECK(std::isfinite(norm) && norm >= 0, "a norm of {}", norm);
  CHECK(limit > 0, "a limit of {}", limit);
  return std::min(1.0, limit / (norm + 1e-6));
}

void scale(std::span<float> gradients, double factor) {
  const auto by = static_cast<float>(factor);
  for (float& x : gradients) x *= by;
}

}  // namespace tombolo::update
