// What can be predicted but not performed is refused by name, before any worker starts.
#include "runtime/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/test_plan.h"

namespace tombolo::runtime {
namespace {

using ::testing::HasSubstr;

std::string complaint(const plan::Plan& plan) {
  const Status status = check_performable(plan);
  return status ? "performable" : status.error().text();
}

TEST(CheckPerformable, TakesSchedulesOfWholeBackwards) {
  for (const char* schedule : {"1f1b", "gpipe", "varuna"}) {
    EXPECT_EQ(complaint(make_test_plan({.schedule = schedule})), "performable");
  }
}

TEST(CheckPerformable, RefusesBackwardsInHalves) {
  EXPECT_THAT(complaint(make_test_plan({.schedule = "zb-h1"})),
              HasSubstr("parallelism.schedule = \"zb-h1\": backwards in halves can be predicted "
                        "but not run here"));
}

TEST(CheckPerformable, RefusesSeveralStagesPerRank) {
  EXPECT_THAT(complaint(make_test_plan({.schedule = "w", .virtual_stages = 2})),
              HasSubstr("parallelism.schedule = \"w\": several stages per rank can be predicted "
                        "but not run here"));
}

TEST(CheckPerformable, TakesCellsThatShareTheWanInTime) {
  for (const char* schedule : {"1f1b", "atlas"}) {
    EXPECT_EQ(
        complaint(make_test_plan({.replicas = 2, .schedule = schedule, .sharing = "temporal"})),
        "performable");
  }
}

TEST(CheckPerformable, RefusesSchedulesThatAPlanCarries) {
  plan::Plan plan = make_test_plan({});
  plan.given = plan::GivenSchedule{.name = "1f1b, 2 in flight"};
  EXPECT_THAT(complaint(plan), HasSubstr("carries the schedule \"1f1b, 2 in flight\", which cannot "
                                         "be performed yet; tombolo simulate can"));
}

}  // namespace
}  // namespace tombolo::runtime
