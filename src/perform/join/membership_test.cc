#include "perform/join/membership.h"

#include <gtest/gtest.h>

#include "support/folder_test.h"
#include "support/test_plan.h"

namespace tombolo::join {
namespace {

// What the coordinator decides is what the launcher is told: who, why, and whether there is more.
TEST(Membership, LossesAreCountedByTheCoordinator) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  ManualClock clock;
  const auto opened = Membership::open(plan, {.losses_max = 1}, clock);
  ASSERT_TRUE(opened) << opened.error().text();
  Membership& members = **opened;
  const auto all_come = [&] {
    members.begin();
    for (const int32_t rank : {0, 1}) {
      members.came(rank);
      members.beat(rank, {.epoch = members.epoch(), .sent = clock.now()});
    }
    EXPECT_TRUE(members.begun());
    EXPECT_FALSE(members.halted());
  };
  all_come();
  members.ended(1, "killed");
  auto halted = members.halted();
  ASSERT_TRUE(halted);
  EXPECT_EQ(halted->reason, "rank 1 (paris) was lost: killed");
  EXPECT_EQ(halted->lost, 1);
  EXPECT_TRUE(halted->again);
  members.ended(0, "stopped");
  EXPECT_EQ(members.epoch(), 2u);
  EXPECT_EQ(members.halted()->lost, 1) << "told until the next gathering begins";

  all_come();
  members.halt("they cannot reach each other");
  halted = members.halted();
  ASSERT_TRUE(halted);
  EXPECT_EQ(halted->reason, "they cannot reach each other");
  EXPECT_FALSE(halted->lost) << "nobody is to blame";
  EXPECT_FALSE(halted->again) << "the second in a row";
}

TEST(Membership, WhoIsLostWhileAllGatherEndsTheGathering) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  ManualClock clock;
  const auto opened = Membership::open(plan, {.losses_max = 3}, clock);
  ASSERT_TRUE(opened) << opened.error().text();
  Membership& members = **opened;
  members.begin();
  members.came(1);
  members.ended(1, "killed");
  ASSERT_TRUE(members.halted());
  EXPECT_EQ(members.halted()->lost, 1);
  EXPECT_TRUE(members.halted()->again);
  EXPECT_EQ(members.epoch(), 2u);
}

// Only those who had all been there once are waited for again.
TEST(Membership, ARankThatNeverCameEndsTheRunAndIsNamed) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  ManualClock clock;
  const SimDuration join_max{2'000'000'000};
  const auto opened = Membership::open(plan, {.losses_max = 3, .gather_max = join_max}, clock);
  ASSERT_TRUE(opened) << opened.error().text();
  Membership& members = **opened;
  members.begin();
  members.came(0);
  clock.sleep_until(clock.now() + join_max);
  members.tick();
  ASSERT_TRUE(members.halted());
  EXPECT_EQ(members.halted()->reason, "rank 1 (paris) did not come within 2 s: 1 of 2 are here");
  EXPECT_FALSE(members.halted()->lost);
  EXPECT_FALSE(members.halted()->again);
}

using MembershipFolder = FolderTest;

// A launcher that is killed behind the last step leaves a run that needs no ranks any more.
TEST_F(MembershipFolder, TheNextLauncherKnowsThatAllIsDone) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  ManualClock clock;
  const auto open = [&] { return *Membership::open(plan, {.output = folder_}, clock); };
  const auto earlier = [&] { return *Membership::earlier_run(plan, folder_); };
  EXPECT_FALSE(earlier().goes_on);
  {
    const auto first = open();
    EXPECT_FALSE(first->was_done());
    first->begin();
    for (const int32_t rank : {0, 1}) first->came(rank);
  }
  EXPECT_TRUE(earlier().goes_on);
  EXPECT_FALSE(earlier().was_done);
  {
    const auto killed_early = open();
    EXPECT_TRUE(killed_early->goes_on());
    EXPECT_FALSE(killed_early->was_done());
    killed_early->done();
    ASSERT_TRUE(killed_early->status());
  }
  EXPECT_TRUE(earlier().goes_on);
  EXPECT_TRUE(earlier().was_done);
  const auto killed_late = open();
  EXPECT_TRUE(killed_late->goes_on());
  EXPECT_TRUE(killed_late->was_done());
  killed_late->close("all steps are done");
  EXPECT_FALSE(earlier().goes_on);
  EXPECT_FALSE(earlier().was_done);
}

TEST(MembershipDeathTest, RanksHaveSeats) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  ManualClock clock;
  const auto membership = Membership::open(plan, {}, clock);
  ASSERT_TRUE(membership) << membership.error().text();
  EXPECT_DEATH((*membership)->came(2), "rank 2 of 2");
  EXPECT_DEATH((*membership)->beat(-1, {}), "rank -1 of 2");
  EXPECT_DEATH((*membership)->ended(2, "killed"), "rank 2 of 2");
}

}  // namespace
}  // namespace tombolo::join
