// Small promises; its life under a launcher stands in worker/launch_test.cc.
#include "perform/launch/rank_session.h"

#include <gtest/gtest.h>

#include "support/test_plan.h"

namespace tombolo::launch {
namespace {

TEST(RankName, SaysWhereItSits) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  EXPECT_EQ(rank_name(plan, 1), "rank 1 (paris)");
}

TEST(RankSessionDeathTest, CallersKeepTheirPromises) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  EXPECT_DEATH(rank_name(plan, 2), "rank 2 of 2 has no name");
  ManualClock clock;
  EXPECT_DEATH(serve_rank({.rank = 1}, {}, clock), "nobody makes kernels for rank 1");
}

}  // namespace
}  // namespace tombolo::launch
