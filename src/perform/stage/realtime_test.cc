#include "perform/stage/realtime.h"

#include <gtest/gtest.h>

namespace tombolo::stage {
namespace {

TEST(RealtimeDeathTest, ThePriorityIsOneOfTheKernels) {
  EXPECT_DEATH(make_realtime(0), "a priority of 0");
  EXPECT_DEATH(make_realtime(100), "a priority of 100");
}

}  // namespace
}  // namespace tombolo::stage
