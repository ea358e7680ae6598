#include "perform/launch/reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/test_plan.h"

namespace tombolo::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr int32_t kA = 0, kD = 1, kN = 2;  // all, datacenter, nobody

TEST(Reach, WhoeverCanDialDials) {
  const plan::Plan plan = make_test_plan({.stages = 3});
  const Meeting dials{.dials = true}, awaits{}, spliced{.spliced = true};
  const auto both = [&](const std::vector<int32_t>& reach) {
    return std::pair(meeting(plan, reach, 0, 1), meeting(plan, reach, 1, 0));
  };
  EXPECT_EQ(both({}), std::pair(dials, awaits)) << "the lower rank";
  EXPECT_EQ(both({kN, kA, kA}), std::pair(dials, awaits));
  EXPECT_EQ(both({kA, kN, kA}), std::pair(awaits, dials)) << "the higher one cannot be called";
  EXPECT_EQ(both({kD, kD, kA}), std::pair(spliced, spliced));
  EXPECT_EQ(both({kN, kD, kA}), std::pair(spliced, spliced));
}

TEST(Reach, BehindOneRouterRanksReachEachOther) {
  const plan::Plan plan = make_test_plan({.stages = 1, .replicas = 2});
  EXPECT_EQ(meeting(plan, {kD, kD}, 0, 1), Meeting{.dials = true});
  EXPECT_EQ(meeting(plan, {kN, kD}, 0, 1), Meeting{.dials = true});
  EXPECT_EQ(meeting(plan, {kA, kD}, 1, 0), Meeting{.dials = true}) << "what is certain goes first";
  EXPECT_EQ(meeting(plan, {kN, kN}, 0, 1), Meeting{.spliced = true});
}

TEST(Reach, OnlyNeighboursNeedASplice) {
  const plan::Plan plan = make_test_plan({.stages = 4});
  EXPECT_THAT(spliced_links(plan, {kN, kA, kN, kA}), IsEmpty());
  EXPECT_THAT(spliced_links(plan, {kA, kD, kN, kD}), ElementsAre(Pair(1, 2), Pair(2, 3)));
  EXPECT_EQ(spliced_note({{1, 2}, {2, 3}}),
            "links that go through this host, because neither of the two can be called: 1 and 2, "
            "2 and 3");
}

TEST(ReachDeathTest, TwoRanksOfThePlanMeet) {
  const plan::Plan plan = make_test_plan({.stages = 3});
  EXPECT_DEATH(meeting(plan, {}, 1, 1), "rank 1 meets rank 1 of 3");
  EXPECT_DEATH(meeting(plan, {}, 2, 3), "rank 2 meets rank 3 of 3");
  EXPECT_DEATH(meeting(plan, {kA, kA}, 0, 1), "the reach of 2 of 3 ranks");
}

}  // namespace
}  // namespace tombolo::launch
