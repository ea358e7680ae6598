// What can be predicted but not performed is refused by name, before any worker starts.
#include "perform/launch/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/schedule/schedule.h"
#include "support/test_plan.h"

namespace tombolo::launch {
namespace {

using ::testing::HasSubstr;

std::string complaint(const plan::Plan& plan) {
  const Status status = check_performable(plan);
  return status ? "performable" : status.error().text();
}

TEST(CheckPerformable, TakesEverySchedule) {
  for (const std::string& name : schedule::schedule_names()) {
    const int chunks = plan::layout_of(name) == plan::Layout::kLine ? 1 : 2;
    const plan::Plan plan =
        make_test_plan({.microbatches = 4, .schedule = name, .virtual_stages = chunks});
    EXPECT_EQ(complaint(plan), "performable") << name;
  }
}

TEST(CheckPerformable, RefusesMoreStagesThanMessagesCanBeToldApartFor) {
  EXPECT_THAT(complaint(make_test_plan({.schedule = "interleaved", .virtual_stages = 40'000})),
              HasSubstr("80000 stages: messages can be told apart for 65536 of them"));
}

TEST(CheckPerformable, TakesCellsThatShareTheWanInTime) {
  for (const char* schedule : {"1f1b", "atlas"}) {
    EXPECT_EQ(
        complaint(make_test_plan({.replicas = 2, .schedule = schedule, .sharing = "temporal"})),
        "performable");
  }
}

TEST(CheckPerformable, TakesSchedulesThatAPlanCarriesIfTheyAreSound) {
  plan::Plan plan = make_test_plan({});
  plan.given = schedule::to_given(*schedule::build("gpipe", schedule::shape_of(plan)));
  EXPECT_EQ(complaint(plan), "performable");
  plan.given->ranks.pop_back();
  EXPECT_THAT(complaint(plan), HasSubstr("given.ranks orders 1 ranks of 2"));
}

TEST(LauncherDeathTest, TheCommandLineHasBoundedItsNumbers) {
  const plan::Plan plan = make_test_plan({});
  ManualClock clock;
  EXPECT_DEATH(static_cast<void>(launch(plan, {.restarts = -1}, clock)), "-1 restarts");
  EXPECT_DEATH(static_cast<void>(launch(plan, {.end_max = {}}, clock)), "0 ns for workers to end");
}

}  // namespace
}  // namespace tombolo::launch
