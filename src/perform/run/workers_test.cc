// Small promises; how workers live and die stands in worker/launch_test.cc.
#include "perform/run/workers.h"

#include <gtest/gtest.h>

namespace tombolo::run {
namespace {

TEST(WorkersDeathTest, CallersKnowTheRanks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // there are threads that listen
  SystemClock clock;
  Workers::Options options{.ranks = 2, .token = *link::Token::random()};
  const auto workers = Workers::listen(options, clock);
  ASSERT_TRUE(workers) << workers.error().text();
  EXPECT_DEATH((*workers)->kill_now(2), "rank 2 of 2");
  EXPECT_DEATH(static_cast<void>((*workers)->tell(-1, state::Over{})), "rank -1 of 2");
  EXPECT_DEATH(static_cast<void>((*workers)->spawn(2, "/bin/true", {})), "rank 2 of 2");
  ASSERT_TRUE((*workers)->spawn(0, "/bin/true", {}));
  EXPECT_DEATH(static_cast<void>((*workers)->spawn(0, "/bin/true", {})),
               "rank 0 was started already");
  options.ranks = 0;
  EXPECT_DEATH(static_cast<void>(Workers::listen(options, clock)), "workers for 0 ranks");
}

}  // namespace
}  // namespace tombolo::run
