#include "steer/tune/gaussian_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace tombolo::tune {
namespace {

using ::testing::HasSubstr;

// Two points a distance d apart with values -1 and 1 and noise v: K = [[1+v, k], [k, 1+v]]. By
// symmetry the mean is 0, the weights are -+1 / (1+v-k), and s^2 = 1 / (1+v-k). At the second point
// the belief is (1-k) / (1+v-k).
TEST(GaussianProcess, OfTwoPointsIsTheClosedForm) {
  const double v = 0.25, d = 0.5;
  const double matern = (1 + std::sqrt(5) * d + 5.0 / 3 * d * d) * std::exp(-std::sqrt(5) * d);
  const double squared = std::exp(-d * d / 2);
  for (const auto& [kernel, k] : {std::pair(KernelKind::kMatern52, matern),
                                  std::pair(KernelKind::kSquaredExponential, squared)}) {
    // A length of 2 in the first direction: 1 apart there is a distance of 0.5.
    const double values[] = {-1, 1};
    const auto process = GaussianProcess::with({{0, 0}, {1, 0}}, values, kernel, {{2, 1}, v});
    ASSERT_TRUE(process) << process.error().text();
    EXPECT_NEAR(process->mean(), 0, 1e-12);
    EXPECT_NEAR(process->variance(), 1 / (1 + v - k), 1e-12);
    const Belief at = process->at({1, 0});
    EXPECT_NEAR(at.mean, (1 - k) / (1 + v - k), 1e-12);
    // s^2 (1 - [k 1] K^-1 [k 1]^T), of which K^-1 = [[1+v, -k], [-k, 1+v]] / ((1+v)^2 - k^2).
    const double determinant = (1 + v) * (1 + v) - k * k;
    const double explained = ((1 + v) * (k * k + 1) - 2 * k * k) / determinant;
    EXPECT_NEAR(at.variance, process->variance() * (1 - explained), 1e-12);
    // log N of both values: -1/2 (2 log(2 pi s^2) + log det K + 2).
    EXPECT_NEAR(process->log_likelihood(),
                -0.5 * (2 * std::log(2 * M_PI * process->variance()) + std::log(determinant) + 2),
                1e-12);
  }
}

// Far from every point it believes the mean, and is as unsure as before it saw any.
TEST(GaussianProcess, ForgetsItsPointsFarAway) {
  const double values[] = {-1, 1};
  const auto process = GaussianProcess::with({{0, 0}, {1, 0}}, values,
                                             KernelKind::kSquaredExponential, {{1, 1}, 0.1});
  ASSERT_TRUE(process);
  const Belief far = process->at({100, 100});
  EXPECT_NEAR(far.mean, process->mean(), 1e-12);
  EXPECT_NEAR(far.variance, process->variance(), 1e-12);
}

double valley(const Point& p) { return std::sin(4 * p[0]) + (p[1] / 100 - 1) * (p[1] / 100 - 1); }

std::vector<Point> drawn(Random& random, int count) {
  std::vector<Point> points;
  for (int i = 0; i < count; ++i) points.push_back({random.uniform(), 200 * random.uniform()});
  return points;
}

// A smooth function of 40 points, on axes of which one is 200 times as wide: within a hundredth of
// its spread at 100 others.
TEST(GaussianProcess, PredictsASmoothFunction) {
  Random random = Random(3).stream("smooth");
  const std::vector<Point> points = drawn(random, 40);
  std::vector<double> values;
  for (const Point& p : points) values.push_back(valley(p));
  for (const KernelKind kernel : {KernelKind::kMatern52, KernelKind::kSquaredExponential}) {
    const auto process = GaussianProcess::fit(points, values, kernel);
    ASSERT_TRUE(process);
    double error = 0;
    for (const Point& p : drawn(random, 100)) {
      error += std::pow(process->at(p).mean - valley(p), 2) / 100;
    }
    EXPECT_LT(std::sqrt(error), kernel == KernelKind::kMatern52 ? 0.05 : 0.01) << to_name(kernel);
  }
}

// Noise of 0.3 is found for what it is, and four fifths of truths lie within the 90 % that it
// believes in.
TEST(GaussianProcess, TellsNoiseFromShape) {
  Random random = Random(5).stream("noise");
  const std::vector<Point> points = drawn(random, 80);
  std::vector<double> values;
  for (const Point& p : points) values.push_back(valley(p) + 0.3 * random.normal());
  const auto process = GaussianProcess::fit(points, values, KernelKind::kMatern52);
  ASSERT_TRUE(process);
  EXPECT_NEAR(std::sqrt(process->smoothness().noise * process->variance()), 0.3, 0.08);
  int inside = 0;
  for (const Point& p : drawn(random, 200)) {
    const Belief belief = process->at(p);
    inside += std::abs(belief.mean - valley(p)) < 1.645 * std::sqrt(belief.variance);
  }
  EXPECT_GE(inside, 160);
}

// Smoothness that was fitted is at least as likely as any on a coarse grid.
TEST(GaussianProcess, NoSmoothnessOfAGridIsLikelier) {
  Random random = Random(9).stream("likelihood");
  const std::vector<Point> points = drawn(random, 15);
  std::vector<double> values;
  for (const Point& p : points) values.push_back(valley(p) + 0.1 * random.normal());
  const auto fitted = GaussianProcess::fit(points, values, KernelKind::kMatern52);
  ASSERT_TRUE(fitted);
  for (double a = 0.06; a < 20; a *= 1.7) {
    for (double b = 12; b < 4000; b *= 1.7) {
      for (double noise = 1e-7; noise < 5; noise *= 4) {
        const auto other =
            GaussianProcess::with(points, values, KernelKind::kMatern52, {{a, b}, noise});
        if (!other) continue;
        EXPECT_LE(other->log_likelihood(), fitted->log_likelihood() + 0.05)
            << a << " " << b << " " << noise;
      }
    }
  }
}

TEST(GaussianProcess, OfOnePointOrEqualValuesBelievesThem) {
  const double one[] = {4};
  const auto single = GaussianProcess::fit({{1, 2}}, one, KernelKind::kMatern52);
  ASSERT_TRUE(single) << single.error().text();
  EXPECT_NEAR(single->at({5, 5}).mean, 4, 1e-9);
  const double equal[] = {2, 2, 2};
  const auto flat =
      GaussianProcess::fit({{0, 0}, {0, 0}, {1, 1}}, equal, KernelKind::kSquaredExponential);
  ASSERT_TRUE(flat) << flat.error().text();
  EXPECT_NEAR(flat->at({0.5, 0.5}).mean, 2, 1e-9);
}

TEST(GaussianProcess, RefusesWhatItCannotUse) {
  const double values[] = {1, 2};
  EXPECT_THAT(GaussianProcess::fit({{0, 0}}, values, KernelKind::kMatern52).error().text(),
              HasSubstr("2 values at 1 points"));
  const double odd[] = {1, kInfinity};
  EXPECT_THAT(GaussianProcess::fit({{0, 0}, {1, 0}}, odd, KernelKind::kMatern52).error().text(),
              HasSubstr("point 1 is (1, 0) with inf"));
  const auto flat =
      GaussianProcess::with({{0, 0}, {1, 0}}, values, KernelKind::kMatern52, {{0, 1}, 1});
  EXPECT_THAT(flat.error().text(), HasSubstr("lengths 0 and 1 with noise 1"));
}

}  // namespace
}  // namespace tombolo::tune
