// A Gaussian process over a plane: a distribution over a function that was observed at a few
// points.
//
//   y = m + h(p) + noise,   h ~ GP(0, s^2 k(d)),   d^2 = ((p0-q0) / l0)^2 + ((p1-q1) / l1)^2
//
// The kernel k is Matern's of 5/2, (1 + sqrt(5) d + 5/3 d^2) exp(-sqrt(5) d), or the squared
// exponential, exp(-d^2 / 2). Lengths, and noise as a share of s^2, are those of maximum
// likelihood; the mean m and s^2 follow from them in closed form.
//
// Source: C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, MIT Press
// 2006, equations 2.25, 2.26 and 5.8 (the likelihood), 4.9 and 4.17 (the kernels). The linear
// algebra is Eigen's, the search for the largest likelihood Nelder and Mead's.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/result.h"

namespace tombolo::tune {

using Point = std::array<double, 2>;

enum class KernelKind { kMatern52, kSquaredExponential };
constexpr auto enum_names(KernelKind) {
  return std::to_array<EnumName<KernelKind>>(
      {{KernelKind::kMatern52, "matern-5/2"},
       {KernelKind::kSquaredExponential, "squared-exponential"}});
}

// Normal with these moments; of the function itself, without the noise of seeing it.
struct Belief {
  double mean = 0;
  double variance = 0;
};

// The parameters that maximise the likelihood.
struct Smoothness {
  Point lengths = {1, 1};
  double noise = 1e-6;  // variance, as a share of the function's
};

class GaussianProcess {
 public:
  // Unusable: no point, another number of values than points, or a value that is not finite. Some
  // hundred steps of O(points^3).
  static Result<GaussianProcess> fit(std::vector<Point> points, std::span<const double> values,
                                     KernelKind kernel);
  // With known smoothness. The same errors; also for lengths or noise that are not positive.
  static Result<GaussianProcess> with(std::vector<Point> points, std::span<const double> values,
                                      KernelKind kernel, const Smoothness& smoothness);

  Belief at(const Point& point) const;  // O(points^2)

  const Smoothness& smoothness() const { return smoothness_; }
  double mean() const { return mean_; }                  // far from every point
  double variance() const { return variance_; }          // there
  double log_likelihood() const { return likelihood_; }  // of the values

 private:
  GaussianProcess() = default;

  std::vector<Point> points_;
  KernelKind kernel_ = KernelKind::kMatern52;
  Smoothness smoothness_;
  double mean_ = 0, variance_ = 0, likelihood_ = 0;
  std::vector<double> factor_;   // lower triangle of the kernel matrix' Cholesky factor, by columns
  std::vector<double> weights_;  // of the points, in the mean
};

}  // namespace tombolo::tune
