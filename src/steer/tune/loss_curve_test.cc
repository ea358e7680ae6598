#include "steer/tune/loss_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tombolo::tune {
namespace {

// As good as no memory: the curve itself.
constexpr double kNone = 1e-6;

// A step of 2 samples keeps exp(-2 ln 2 / 2) = 1/2 of what was.
TEST(LossCurve, SmoothsBySamples) {
  const double tau = 2 / std::log(2);
  const auto means = smoothed({.batch = 2, .losses = {8, 4, 2}}, tau);
  ASSERT_EQ(means.size(), 3);
  EXPECT_NEAR(means[0], 8, 1e-12);
  EXPECT_NEAR(means[1], (4 + 8 * 0.5) / 1.5, 1e-12);
  EXPECT_NEAR(means[2], (2 + 4 * 0.5 + 8 * 0.25) / 1.75, 1e-12);
}

// Of steps of 4 samples at 5, 4, 3, 2 nats, the reference is at 3 after 12 samples, and at 3.5 half-way
// between 8 and 12. Six samples of the other came as far.
TEST(LossCurve, AsManySamplesOfTheReference) {
  const LossCurve reference{.batch = 4, .losses = {5, 4, 3, 2}};
  EXPECT_NEAR(worth_of_a_sample(reference, {.batch = 2, .losses = {5, 4, 3}}, kNone), 12.0 / 6,
              1e-9);
  EXPECT_NEAR(worth_of_a_sample(reference, {.batch = 20, .losses = {3.5}}, kNone), 10.0 / 20, 1e-9);
  EXPECT_NEAR(worth_of_a_sample(reference, reference, kNone), 1, 1e-9);
}

TEST(LossCurve, EndsWithTheReference) {
  const LossCurve reference{.batch = 4, .losses = {5, 4, 3, 2}};
  EXPECT_NEAR(worth_of_a_sample(reference, {.batch = 8, .losses = {9}}, kNone), 4.0 / 8, 1e-9);
  EXPECT_NEAR(worth_of_a_sample(reference, {.batch = 8, .losses = {1}}, kNone), 16.0 / 8, 1e-9);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NEAR(worth_of_a_sample(reference, {.batch = 8, .losses = {nan}}, kNone), 4.0 / 8, 1e-9);
}

// The same loss by samples, whatever the batch: with memory as well, once that is longer than a step.
TEST(LossCurve, ABatchAloneIsWorthNothing) {
  const auto curve = [](int64_t batch, int64_t samples) {
    LossCurve made{.batch = batch};
    for (int64_t i = 0; i < samples / batch; ++i)
      made.losses.push_back(3 + std::exp(-static_cast<double>((2 * i + 1) * batch) / 2 / 4000));
    return made;
  };
  for (const int64_t batch : {4, 10, 50, 100}) {
    EXPECT_NEAR(worth_of_a_sample(curve(20, 8000), curve(batch, 4000), 400), 1, 0.02) << batch;
  }
}

}  // namespace
}  // namespace tombolo::tune
