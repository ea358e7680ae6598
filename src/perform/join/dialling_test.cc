#include "perform/join/dialling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/test_plan.h"

namespace tombolo::join {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr int32_t kA = 0, kD = 1, kN = 2;  // Reach::kAll, kDatacenter, kNobody

TEST(Dialling, WhoeverCanDialDials) {
  const plan::Plan plan = make_test_plan({.stages = 3});
  const auto both = [&](const std::vector<int32_t>& reach) {
    EXPECT_EQ(dialling_of(plan, reach, 0, 1), dialling_of(plan, reach, 1, 0)) << "both agree";
    return dialling_of(plan, reach, 0, 1);
  };
  EXPECT_EQ(both({}), Dialling::kLowerCalls) << "the lower rank";
  EXPECT_EQ(both({kN, kA, kA}), Dialling::kLowerCalls);
  EXPECT_EQ(both({kA, kN, kA}), Dialling::kHigherCalls) << "the higher one cannot be called";
  EXPECT_EQ(both({kD, kD, kA}), Dialling::kSpliced);
  EXPECT_EQ(both({kN, kD, kA}), Dialling::kSpliced);
}

TEST(Dialling, BehindOneRouterRanksReachEachOther) {
  const plan::Plan plan = make_test_plan({.stages = 1, .replicas = 2});
  EXPECT_EQ(dialling_of(plan, {kD, kD}, 0, 1), Dialling::kLowerCalls);
  EXPECT_EQ(dialling_of(plan, {kN, kD}, 0, 1), Dialling::kLowerCalls);
  EXPECT_EQ(dialling_of(plan, {kA, kD}, 1, 0), Dialling::kHigherCalls)
      << "what is certain goes first";
  EXPECT_EQ(dialling_of(plan, {kN, kN}, 0, 1), Dialling::kSpliced);
}

TEST(Dialling, OnlyNeighboursNeedASplice) {
  const plan::Plan plan = make_test_plan({.stages = 4});
  EXPECT_THAT(spliced_links(plan, {kN, kA, kN, kA}), IsEmpty());
  EXPECT_THAT(spliced_links(plan, {kA, kD, kN, kD}), ElementsAre(Pair(1, 2), Pair(2, 3)));
  EXPECT_EQ(spliced_note({{1, 2}, {2, 3}}),
            "links that go through this host, because neither of the two can be called: 1 and 2, "
            "2 and 3");
}

TEST(DiallingDeathTest, TwoRanksOfThePlanMeet) {
  const plan::Plan plan = make_test_plan({.stages = 3});
  EXPECT_DEATH(dialling_of(plan, {}, 1, 1), "rank 1 meets rank 1 of 3");
  EXPECT_DEATH(dialling_of(plan, {}, 2, 3), "rank 2 meets rank 3 of 3");
  EXPECT_DEATH(dialling_of(plan, {kA, kA}, 0, 1), "the reach of 2 of 3 ranks");
}

const std::vector<std::string> kAddresses{"10.0.0.6:41000", "10.0.0.7:41000"};

TEST(DialAttempts, TryBothDirectionsThenASplice) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  DialAttempts pairs(plan, {0, 0});
  EXPECT_EQ(dialling_of(plan, {0, 0}, 1, 0), Dialling::kLowerCalls);
  EXPECT_EQ(pairs.failed(0, 1, Dialling::kLowerCalls), Dialling::kHigherCalls);
  EXPECT_EQ(pairs.describe(1, 0, kAddresses),
            "rank 0 (oregon) cannot reach rank 1 (paris) at 10.0.0.7:41000");
  EXPECT_EQ(pairs.failed(0, 1, Dialling::kLowerCalls), std::nullopt) << "said before";
  EXPECT_EQ(pairs.failed(0, 1, Dialling::kHigherCalls), std::nullopt) << "not its call";
  EXPECT_EQ(pairs.failed(1, 0, Dialling::kHigherCalls), Dialling::kSpliced);
  EXPECT_FALSE(pairs.hopeless(0, 1));
  EXPECT_EQ(pairs.failed(0, 1, Dialling::kSpliced), std::nullopt);
  EXPECT_FALSE(pairs.hopeless(0, 1)) << "rank 1 may still be loading";
  EXPECT_EQ(pairs.failed(1, 0, Dialling::kSpliced), std::nullopt);
  EXPECT_TRUE(pairs.hopeless(1, 0));
  EXPECT_EQ(pairs.describe(0, 1, kAddresses),
            "rank 0 (oregon) cannot reach rank 1 (paris) at 10.0.0.7:41000, nor the other way "
            "round, nor through the launcher's host");
}

// Rank 1 is known to take no calls, so it calls; after a failure rank 0 does not try to call it.
TEST(DialAttempts, NobodyCallsARankThatNobodyReaches) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  const std::vector<int32_t> reach{0, static_cast<int32_t>(Reach::kNobody)};
  DialAttempts pairs(plan, reach);
  ASSERT_EQ(dialling_of(plan, reach, 0, 1), Dialling::kHigherCalls);
  EXPECT_EQ(pairs.failed(1, 0, Dialling::kHigherCalls), Dialling::kSpliced);
  EXPECT_THAT(pairs.describe(0, 1, kAddresses), HasSubstr("rank 1 (paris) cannot reach rank 0"));
}

TEST(DialAttemptsDeathTest, APairIsTwoRanksOfThePlan) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  DialAttempts pairs(plan, {});
  EXPECT_DEATH(pairs.failed(0, 2, Dialling::kSpliced), "rank 0 and rank 2 of 2 are no pair");
  EXPECT_DEATH(pairs.hopeless(1, 1), "rank 1 and rank 1 of 2 are no pair");
  EXPECT_DEATH(pairs.describe(0, 1, {}), "0 addresses of 2 ranks");
}

}  // namespace
}  // namespace tombolo::join
