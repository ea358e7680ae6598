#include "ui/command/progress.h"

#include <gtest/gtest.h>

#include <sstream>

namespace tombolo::command {
namespace {

TEST(Progress, draws_a_bar) {
  EXPECT_EQ(progress_bar(0, 8, 4), "[....]");
  EXPECT_EQ(progress_bar(5, 8, 4), "[##..]");  // 5 * 4 / 8 = 2.5
  EXPECT_EQ(progress_bar(8, 8, 4), "[####]");
  EXPECT_EQ(progress_bar(9, 8, 4), "[####]");
}

TEST(ProgressDeathTest, ABarHasAWidth) {
  EXPECT_DEATH(progress_bar(1, 2, -1), "a bar of -1 characters");
}

}  // namespace
}  // namespace tombolo::command
