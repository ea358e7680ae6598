#include "perform/launch/membership.h"

#include <gtest/gtest.h>

#include "support/test_plan.h"

namespace tombolo::launch {
namespace {

TEST(MembershipDeathTest, RanksHaveSeats) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  ManualClock clock;
  const auto membership = Membership::open(plan, "", false, clock);
  ASSERT_TRUE(membership) << membership.error().text();
  EXPECT_DEATH((*membership)->came(2), "rank 2 of 2");
  EXPECT_DEATH((*membership)->beat(-1, {}), "rank -1 of 2");
  EXPECT_DEATH((*membership)->ended(2, "killed"), "rank 2 of 2");
}

}  // namespace
}  // namespace tombolo::launch
