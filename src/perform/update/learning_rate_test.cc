#include "perform/update/learning_rate.h"

#include <gtest/gtest.h>

namespace tombolo::update {
namespace {

TEST(LearningRate, WarmsUpLinearlyThenFollowsHalfACosine) {
  const plan::Optimizer o{.learning_rate = 1, .learning_rate_min = 0.2, .warmup_steps = 10};
  EXPECT_DOUBLE_EQ(learning_rate(o, 110, 1), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(o, 110, 10), 1);
  EXPECT_NEAR(learning_rate(o, 110, 60), 0.6, 1e-12);  // half way: the mean of 1 and 0.2
  EXPECT_DOUBLE_EQ(learning_rate(o, 110, 110), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(o, 110, 500), 0.2);
}

TEST(LearningRate, TakesNoWarmUpAndAWarmUpLongerThanTheRun) {
  plan::Optimizer o{.learning_rate = 1, .learning_rate_min = 0, .warmup_steps = 0};
  EXPECT_NEAR(learning_rate(o, 2, 1), 0.5, 1e-12);
  o.warmup_steps = 10;
  EXPECT_DOUBLE_EQ(learning_rate(o, 4, 4), 0.4);
}

TEST(LearningRate, StaysWhereTheRuleIsConstant) {
  const plan::Optimizer o{.learning_rate = 1,
                          .learning_rate_min = 0.2,
                          .warmup_steps = 10,
                          .rule = plan::RateRule::kConstant};
  EXPECT_DOUBLE_EQ(learning_rate(o, 110, 5), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(o, 110, 11), 1);
  EXPECT_DOUBLE_EQ(learning_rate(o, 110, 500), 1);
}

TEST(LearningRate, FollowsAStraightLineToItsFloor) {
  const plan::Optimizer o{.learning_rate = 1,
                          .learning_rate_min = 0.2,
                          .warmup_steps = 10,
                          .rule = plan::RateRule::kLinear};
  EXPECT_DOUBLE_EQ(learning_rate(o, 110, 10), 1);
  EXPECT_NEAR(learning_rate(o, 110, 35), 0.8, 1e-12);  // a quarter of the way from 1 to 0.2
  EXPECT_DOUBLE_EQ(learning_rate(o, 110, 110), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(o, 110, 500), 0.2);
}

TEST(LearningRate, IsStableAndThenDecaysInTheLastStepsOfWsd) {
  plan::Optimizer o{.learning_rate = 1,
                    .learning_rate_min = 0.2,
                    .warmup_steps = 10,
                    .rule = plan::RateRule::kWsd,
                    .decay_steps = 40};
  EXPECT_DOUBLE_EQ(learning_rate(o, 110, 11), 1);
  EXPECT_DOUBLE_EQ(learning_rate(o, 110, 70), 1);      // 110 - 40: the last stable step
  EXPECT_NEAR(learning_rate(o, 110, 80), 0.8, 1e-12);  // a quarter of the 40 steps
  EXPECT_DOUBLE_EQ(learning_rate(o, 110, 110), 0.2);
  o.decay_steps.reset();  // a tenth of 110 steps: 11
  EXPECT_DOUBLE_EQ(learning_rate(o, 110, 99), 1);
  EXPECT_NEAR(learning_rate(o, 110, 100), 1 - 0.8 / 11, 1e-12);
  o.decay_steps = 1000;  // longer than what the warm-up leaves: a line from its end
  EXPECT_NEAR(learning_rate(o, 110, 60), 0.6, 1e-12);
}

}  // namespace
}  // namespace tombolo::update
