#include "perform/update/clip.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace tombolo::update {
namespace {

TEST(Clip, AddsPartsUpToTheWholeNorm) {
  // 1, 2, ..., 21: 21 * 22 * 43 / 6 = 3311; some in the lanes, some in the rest.
  std::vector<float> numbers;
  for (int i = 1; i <= 21; ++i) numbers.push_back(static_cast<float>(i));
  const std::span<const float> all = numbers;
  EXPECT_EQ(squares(all), 3311);
  EXPECT_EQ(squares(all.first(5)) + squares(all.subspan(5)), 3311);
  EXPECT_EQ(squares({}), 0);
}

TEST(Clip, LeavesShortGradientsAndShortensLongOnes) {
  EXPECT_EQ(clip_factor(0, 1), 1);
  EXPECT_EQ(clip_factor(0.5, 1), 1);
  std::vector<float> g{3, 4};
  scale(g, clip_factor(std::sqrt(squares(g)), 1));
  EXPECT_NEAR(g[0], 0.6, 1e-6);
  EXPECT_NEAR(g[1], 0.8, 1e-6);
}

TEST(Clip, SquaresTellWhereAnElementIsNotFiniteAndDoNotOverflow) {
  std::vector<float> g(20, 1e30f);
  EXPECT_NEAR(squares(g) / 20e60, 1, 1e-6);  // float's squares would be infinite
  g[13] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(std::isfinite(squares(g)));
  g[13] = -std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(squares(g)));
}

TEST(ClipDeathTest, HasNoFactorForWhatIsNotFinite) {
  EXPECT_DEATH(clip_factor(std::numeric_limits<double>::infinity(), 1), "a norm of inf");
}

}  // namespace
}  // namespace tombolo::update
