#include "ui/perform_commands/launched.h"

#include <gtest/gtest.h>

namespace tombolo::perform_commands {
namespace {

TEST(LaunchedDeathTest, RankZeroIsTheLauncher) {
  EXPECT_DEATH(join_run({}, {.rank = 0, .ranks = 2}), "rank 0 is the launcher's own process");
  EXPECT_DEATH(return_as({}, {.rank = 0, .ranks = 2}), "rank 0 is the launcher's own process");
}

}  // namespace
}  // namespace tombolo::perform_commands
