#include "steer/tune/gaussian_process.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "steer/tune/nelder_mead.h"

namespace tombolo::tune {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// The smallest noise: without any, equal points make a matrix that has no inverse.
constexpr double kNoiseMin = 1e-8;
// In widths of what was seen: shorter ones follow noise, longer ones are straight lines.
constexpr double kLengthMin = 0.05, kLengthMax = 20;
constexpr double kVarianceMin = 1e-24;

double kernel_of(KernelKind kind, const Point& a, const Point& b, const Point& lengths) {
  const double x = (a[0] - b[0]) / lengths[0], y = (a[1] - b[1]) / lengths[1];
  const double square = x * x + y * y;
  if (kind == KernelKind::kSquaredExponential) return std::exp(-square / 2);
  const double scaled = std::sqrt(5 * square);
  return (1 + scaled + 5 * square / 3) * std::exp(-scaled);
}

struct Solved {
  MatrixXd factor;
  VectorXd weights;  // K^-1 (y - m)
  double mean = 0, variance = 0, likelihood = 0;
};

// Nothing where the matrix is not positive definite in doubles.
std::optional<Solved> solve(const std::vector<Point>& points, const VectorXd& values,
                            KernelKind kernel, const Smoothness& smoothness) {
  const auto n = static_cast<Eigen::Index>(points.size());
  MatrixXd k(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < i; ++j) {
      k(i, j) = kernel_of(kernel, points[static_cast<size_t>(i)], points[static_cast<size_t>(j)],
                          smoothness.lengths);
    }
    k(i, i) = 1 + std::max(smoothness.noise, kNoiseMin);
  }
  const Eigen::LLT<MatrixXd, Eigen::Lower> cholesky(k);  // reads the lower triangle alone
  if (cholesky.info() != Eigen::Success) return std::nullopt;
  Solved out;
  out.factor = cholesky.matrixL();
  const VectorXd ones = VectorXd::Ones(n);
  const VectorXd of_ones = cholesky.solve(ones);
  out.mean = of_ones.dot(values) / of_ones.dot(ones);
  const VectorXd centred = values - out.mean * ones;
  out.weights = cholesky.solve(centred);
  const auto count = static_cast<double>(n);
  out.variance = std::max(centred.dot(out.weights) / count, kVarianceMin);
  const double log_determinant = 2 * out.factor.diagonal().array().log().sum();
  out.likelihood =
      -0.5 * (count * (std::log(2 * std::numbers::pi * out.variance) + 1) + log_determinant);
  if (!std::isfinite(out.likelihood)) return std::nullopt;
  return out;
}

Status check(const std::vector<Point>& points, std::span<const double> values) {
  if (points.empty() || points.size() != values.size()) {
    return unusable(fmt::format("{} values at {} points", values.size(), points.size()),
                    "one value at each of at least one point");
  }
  for (size_t i = 0; i < points.size(); ++i) {
    if (!std::isfinite(points[i][0]) || !std::isfinite(points[i][1]) || !std::isfinite(values[i])) {
      return unusable(
          fmt::format("point {} is ({}, {}) with {}", i, points[i][0], points[i][1], values[i]),
          "all of them must be finite");
    }
  }
  return {};
}

}  // namespace

Result<GaussianProcess> GaussianProcess::with(std::vector<Point> points,
                                              std::span<const double> values, KernelKind kernel,
                                              const Smoothness& smoothness) {
  TRY(check(points, values));
  const auto positive = [](double x) { return std::isfinite(x) && x > 0; };
  if (!positive(smoothness.lengths[0]) || !positive(smoothness.lengths[1]) ||
      !positive(smoothness.noise)) {
    return unusable(fmt::format("lengths {} and {} with noise {}", smoothness.lengths[0],
                                smoothness.lengths[1], smoothness.noise),
                    "all of them must be positive and finite");
  }
  const Eigen::Map<const VectorXd> y(values.data(), static_cast<Eigen::Index>(values.size()));
  std::optional<Solved> solved = solve(points, y, kernel, smoothness);
  if (!solved) {
    return unusable(fmt::format("points as near to each other as these {} leave no inverse with "
                                "noise {}",
                                points.size(), smoothness.noise),
                    "more noise, or shorter lengths");
  }
  GaussianProcess out;
  out.points_ = std::move(points);
  out.kernel_ = kernel;
  out.smoothness_ = smoothness;
  out.mean_ = solved->mean;
  out.variance_ = solved->variance;
  out.likelihood_ = solved->likelihood;
  out.factor_.assign(solved->factor.data(), solved->factor.data() + solved->factor.size());
  out.weights_.assign(solved->weights.data(), solved->weights.data() + solved->weights.size());
  return out;
}

Result<GaussianProcess> GaussianProcess::fit(std::vector<Point> points,
                                             std::span<const double> values, KernelKind kernel) {
  TRY(check(points, values));
  const Eigen::Map<const VectorXd> y(values.data(), static_cast<Eigen::Index>(values.size()));
  Point width;
  for (const size_t axis : {0u, 1u}) {
    const auto [low, high] =
        std::minmax_element(points.begin(), points.end(),
                            [axis](const Point& a, const Point& b) { return a[axis] < b[axis]; });
    width[axis] = std::max((*high)[axis] - (*low)[axis], 1e-12);
  }
  const auto smoothness_at = [&](std::span<const double> logs) {
    return Smoothness{{width[0] * std::exp(logs[0]), width[1] * std::exp(logs[1])},
                      std::exp(logs[2])};
  };
  const auto unlikely = [&](std::span<const double> logs) {
    const std::optional<Solved> solved = solve(points, y, kernel, smoothness_at(logs));
    return solved ? -solved->likelihood : kInfinity;
  };
  const double shortest = std::log(kLengthMin), longest = std::log(kLengthMax);
  const SimplexOptions box{.low = {shortest, shortest, std::log(kNoiseMin)},
                           .high = {longest, longest, std::log(10.0)},
                           .tolerance = 1e-4,
                           .evaluations_max = 300};
  Minimum best;
  best.value = kInfinity;
  for (const Point lengths : {Point{0.3, 0.3}, Point{1, 1}, Point{0.3, 3}, Point{3, 0.3}}) {
    for (const double noise : {1e-4, 0.1}) {
      Minimum found =
          nelder_mead(unlikely, {std::log(lengths[0]), std::log(lengths[1]), std::log(noise)}, box);
      if (found.value < best.value) best = std::move(found);
    }
  }
  // One point, or equal values: every smoothness is as likely.
  if (best.at.empty()) best.at = {0, 0, std::log(1e-4)};
  return with(std::move(points), values, kernel, smoothness_at(best.at));
}

Belief GaussianProcess::at(const Point& point) const {
  const auto n = static_cast<Eigen::Index>(points_.size());
  VectorXd k(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    k(i) = kernel_of(kernel_, point, points_[static_cast<size_t>(i)], smoothness_.lengths);
  }
  const Eigen::Map<const VectorXd> weights(weights_.data(), n);
  const Eigen::Map<const MatrixXd> factor(factor_.data(), n, n);
  const VectorXd half = factor.triangularView<Eigen::Lower>().solve(k);
  return {mean_ + k.dot(weights), variance_ * std::max(0.0, 1 - half.squaredNorm())};
}

}  // namespace tombolo::tune
