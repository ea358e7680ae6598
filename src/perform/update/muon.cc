#include "perform/update/muon.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"
#include "perform/update/clip.h"

namespace tombolo::update {
namespace {

constexpr int kNewtonSchulzSteps = 5;
constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;

std::vector<float> transposed(std::span<const float> matrix, size_t rows, size_t columns) {
  std::vector<float> out(matrix.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) out[j * rows + i] = matrix[i * columns + j];
  }
  return out;
}

// left [n, k] times right [k, m]. The innermost loop runs along rows, so it vectorises and every
// element is summed in the order of k, whatever the width.
std::vector<float> product(std::span<const float> left, std::span<const float> right, size_t n,
                           size_t k, size_t m) {
  std::vector<float> out(n * m, 0.0f);
  for (size_t i = 0; i < n; ++i) {
    float* const to = out.data() + i * m;
    for (size_t l = 0; l < k; ++l) {
      const float factor = left[i * k + l];
      const float* const from = right.data() + l * m;
      for (size_t j = 0; j < m; ++j) to[j] += factor * from[j];
    }
  }
  return out;
}

// One step on a matrix that is not taller than wide: the square in between is the smaller one.
std::vector<float> newton_schulz(std::span<const float> x, size_t rows, size_t columns) {
  const std::vector<float> gram = product(x, transposed(x, rows, columns), rows, columns, rows);
  std::vector<float> polynomial = product(gram, gram, rows, rows, rows);
  for (size_t i = 0; i < polynomial.size(); ++i) {
    polynomial[i] = kB * gram[i] + kC * polynomial[i];
  }
  std::vector<float> out = product(polynomial, x, rows, rows, columns);
  for (size_t i = 0; i < out.size(); ++i) out[i] += kA * x[i];
  return out;
}

double scaling_of(MuonScaling scaling, int64_t rows, int64_t columns) {
  const auto tall = static_cast<double>(rows), wide = static_cast<double>(columns);
  if (scaling == MuonScaling::kMatchAdamW) return 0.2 * std::sqrt(std::max(tall, wide));
  return std::sqrt(std::max(1.0, tall / wide));
}

}  // namespace

std::vector<float> orthogonalised(std::span<const float> matrix, int64_t rows, int64_t columns) {
  CHECK(rows >= 1 && columns >= 1 && matrix.size() == static_cast<size_t>(rows * columns),
        "{} numbers are no matrix of {} rows and {} columns", matrix.size(), rows, columns);
  const bool tall = rows > columns;
  const auto height = static_cast<size_t>(rows), width = static_cast<size_t>(columns);
  std::vector<float> x =
      tall ? transposed(matrix, height, width) : std::vector<float>(matrix.begin(), matrix.end());
  const size_t small = std::min(height, width), large = std::max(height, width);
  scale(x, 1 / std::max(std::sqrt(squares(x)), 1e-7));
  for (int step = 0; step < kNewtonSchulzSteps; ++step) x = newton_schulz(x, small, large);
  return tall ? transposed(x, small, large) : x;
}

void muon(const MuonStep& step, int64_t rows, int64_t columns, std::span<float> weights,
          std::span<const float> gradients, std::span<float> buffer) {
  const size_t size = weights.size();
  CHECK(gradients.size() == size && buffer.size() == size, "{} weights, {} gradients, {} of buffer",
        size, gradients.size(), buffer.size());
  const auto momentum = static_cast<float>(step.momentum);
  std::vector<float> direction(size);
  for (size_t i = 0; i < size; ++i) {
    buffer[i] = momentum * buffer[i] + gradients[i];
    direction[i] = step.nesterov ? gradients[i] + momentum * buffer[i] : buffer[i];
  }
  const std::vector<float> x = orthogonalised(direction, rows, columns);
  const auto keep = static_cast<float>(1 - step.learning_rate * step.weight_decay);
  const auto rate =
      static_cast<float>(step.learning_rate * scaling_of(step.scaling, rows, columns));
  for (size_t i = 0; i < size; ++i) weights[i] = keep * weights[i] - rate * x[i];
}

}  // namespace tombolo::update
