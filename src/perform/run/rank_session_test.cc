// Small promises; its life under a launcher stands in worker/launch_test.cc.
#include "perform/run/rank_session.h"

#include <gtest/gtest.h>

namespace tombolo::run {
namespace {

TEST(RankSessionDeathTest, CallersKeepTheirPromises) {
  ManualClock clock;
  EXPECT_DEATH(serve_rank({.rank = 1}, {}, clock), "nobody makes kernels for rank 1");
}

}  // namespace
}  // namespace tombolo::run
