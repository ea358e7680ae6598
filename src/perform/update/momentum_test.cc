#include "perform/update/momentum.h"

#include <gtest/gtest.h>

#include <vector>

namespace tombolo::update {
namespace {

// w = 1, lr = 0.1, momentum 0.9, decay 0.2; gradients 0.5, then -0.25:
//   g = 0.5 + 0.2 = 0.7            b = 0.7            w = 1 - 0.07 = 0.93
//   g = -0.25 + 0.186 = -0.064     b = 0.63 - 0.064 = 0.566        w = 0.93 - 0.0566 = 0.8734
TEST(Momentum, TakesTheStepsComputedByHand) {
  std::vector<float> w{1}, b{0};
  const MomentumStep step{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.2};
  momentum(step, w, std::vector<float>{0.5f}, b);
  EXPECT_NEAR(w[0], 0.93, 1e-6);
  momentum(step, w, std::vector<float>{-0.25f}, b);
  EXPECT_NEAR(b[0], 0.566, 1e-6);
  EXPECT_NEAR(w[0], 0.8734, 1e-6);
}

//   g = 0.7, b = 0.7                       w = 1 - 0.1 (0.7 + 0.63) = 0.867
//   g = -0.25 + 0.1734 = -0.0766           b = 0.63 - 0.0766 = 0.5534
//   w = 0.867 - 0.1 (-0.0766 + 0.49806) = 0.824854
TEST(Momentum, LooksAheadAsNesterovDoes) {
  std::vector<float> w{1}, b{0};
  const MomentumStep step{
      .learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.2, .nesterov = true};
  momentum(step, w, std::vector<float>{0.5f}, b);
  EXPECT_NEAR(w[0], 0.867, 1e-6);
  momentum(step, w, std::vector<float>{-0.25f}, b);
  EXPECT_NEAR(w[0], 0.824854, 1e-6);
}

TEST(Momentum, IsPlainDescentWithoutMomentum) {
  std::vector<float> w{1, 2}, b{0, 0};
  const MomentumStep step{.learning_rate = 0.5, .momentum = 0};
  for (int i = 0; i < 2; ++i) momentum(step, w, std::vector<float>{1, -1}, b);
  EXPECT_EQ(w, (std::vector<float>{0, 3}));
}

TEST(MomentumDeathTest, WantsSpansOfOneLength) {
  std::vector<float> w{1, 2}, b{0};
  EXPECT_DEATH(momentum({.learning_rate = 1}, w, std::vector<float>{1, 1}, b), "1 of buffer");
}

}  // namespace
}  // namespace tombolo::update
