#include "perform/generate/sampling.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace tombolo::generate {
namespace {

TEST(Sampling, WithoutTemperatureTheLikeliestFirst) {
  Random random(1);
  const std::array logits = {0.5F, 2.0F, -1.0F, 2.0F};
  EXPECT_EQ(sample(logits, {}, random).value(), 1);
}

// Shares are e^0, e^1, e^2 over their sum at temperature 1: 9, 24.5 and 66.5 %.
TEST(Sampling, DrawsByTheSoftmax) {
  const std::array logits = {0.0F, 1.0F, 2.0F};
  Random random(7);
  std::array<int, 3> drawn{};
  for (int i = 0; i < 30'000; ++i) {
    ++drawn[static_cast<size_t>(sample(logits, {.temperature = 1}, random).value())];
  }
  const double sum = 1 + std::exp(1) + std::exp(2);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(drawn[i] / 30'000.0, std::exp(static_cast<double>(i)) / sum, 0.01) << i;
  }
}

// The two likeliest have 91 %: the third is never drawn, the others in proportion.
TEST(Sampling, TopPKeepsTheSmallestSet) {
  const std::array logits = {0.0F, 1.0F, 2.0F};
  Random random(7);
  std::array<int, 3> drawn{};
  for (int i = 0; i < 10'000; ++i) {
    ++drawn[static_cast<size_t>(sample(logits, {.temperature = 1, .top_p = 0.9}, random).value())];
  }
  EXPECT_EQ(drawn[0], 0);
  EXPECT_NEAR(drawn[1] / 10'000.0, 1 / (1 + std::exp(1)), 0.02);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(sample(logits, {.temperature = 1, .top_p = 0.01}, random).value(), 2);
  }
}

TEST(Sampling, EqualSeedsEqualTokens) {
  std::array<float, 100> logits{};
  Random one(3), two(3);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(sample(logits, {.temperature = 1}, one).value(),
              sample(logits, {.temperature = 1}, two).value());
  }
}

TEST(Sampling, RefusesWhatIsNoNumber) {
  Random random(1);
  const std::array broken = {0.0F, std::numeric_limits<float>::quiet_NaN()};
  const std::array endless = {0.0F, std::numeric_limits<float>::infinity()};
  EXPECT_FALSE(sample(broken, {}, random));
  EXPECT_FALSE(sample(endless, {.temperature = 1}, random));
}

}  // namespace
}  // namespace tombolo::generate
