#include "perform/launch/pairings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/test_plan.h"

namespace tombolo::launch {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kAddresses{"10.0.0.6:41000", "10.0.0.7:41000"};

TEST(Pairings, TryBothDirectionsThenASplice) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  Pairings pairs(plan, {0, 0});
  EXPECT_EQ(way_of(plan, {0, 0}, 1, 0), Way::kLowerCalls);
  EXPECT_EQ(pairs.failed(0, 1, Way::kLowerCalls), Way::kHigherCalls);
  EXPECT_EQ(pairs.describe(1, 0, kAddresses),
            "rank 0 (oregon) cannot reach rank 1 (paris) at 10.0.0.7:41000");
  EXPECT_EQ(pairs.failed(0, 1, Way::kLowerCalls), std::nullopt) << "said before";
  EXPECT_EQ(pairs.failed(0, 1, Way::kHigherCalls), std::nullopt) << "not its call";
  EXPECT_EQ(pairs.failed(1, 0, Way::kHigherCalls), Way::kSpliced);
  EXPECT_FALSE(pairs.hopeless(0, 1));
  EXPECT_EQ(pairs.failed(0, 1, Way::kSpliced), std::nullopt);
  EXPECT_FALSE(pairs.hopeless(0, 1)) << "rank 1 may still be loading";
  EXPECT_EQ(pairs.failed(1, 0, Way::kSpliced), std::nullopt);
  EXPECT_TRUE(pairs.hopeless(1, 0));
  EXPECT_EQ(pairs.describe(0, 1, kAddresses),
            "rank 0 (oregon) cannot reach rank 1 (paris) at 10.0.0.7:41000, nor the other way "
            "round, nor through the launcher's host");
}

// Rank 1 cannot be called, says reach.h, so it calls; rank 0 is not called there in vain.
TEST(Pairings, NobodyCallsARankThatNobodyReaches) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  const std::vector<int32_t> reach{0, static_cast<int32_t>(Reach::kNobody)};
  Pairings pairs(plan, reach);
  ASSERT_EQ(way_of(plan, reach, 0, 1), Way::kHigherCalls);
  EXPECT_EQ(pairs.failed(1, 0, Way::kHigherCalls), Way::kSpliced);
  EXPECT_THAT(pairs.describe(0, 1, kAddresses), HasSubstr("rank 1 (paris) cannot reach rank 0"));
}

TEST(PairingsDeathTest, APairIsTwoRanksOfThePlan) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  Pairings pairs(plan, {});
  EXPECT_DEATH(pairs.failed(0, 2, Way::kSpliced), "rank 0 and rank 2 of 2 are no pair");
  EXPECT_DEATH(pairs.hopeless(1, 1), "rank 1 and rank 1 of 2 are no pair");
  EXPECT_DEATH(pairs.describe(0, 1, {}), "0 addresses of 2 ranks");
}

}  // namespace
}  // namespace tombolo::launch
