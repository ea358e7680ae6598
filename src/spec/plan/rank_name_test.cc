#include "spec/plan/rank_name.h"

#include <gtest/gtest.h>

#include "support/test_plan.h"

namespace tombolo::plan {
namespace {

TEST(RankName, NamesRankAndDatacenter) {
  const Plan plan = make_test_plan({.stages = 2});
  EXPECT_EQ(rank_name(plan, 1), "rank 1 (paris)");
}

TEST(RankNameDeathTest, OfARankOfThePlan) {
  const Plan plan = make_test_plan({.stages = 2});
  EXPECT_DEATH(rank_name(plan, 2), "rank 2 of 2 has no name");
}

}  // namespace
}  // namespace tombolo::plan
