// Small promises; what is measured stands in run/profile_test.cc.
#include "perform/stage/measure_link.h"

#include <gtest/gtest.h>

#include "support/test_plan.h"

namespace tombolo::stage {
namespace {

TEST(MeasuringLinksDeathTest, SomethingIsSent) {
  SystemClock clock;
  EXPECT_DEATH(static_cast<void>(measure_link(make_test_plan({}), 0, 1, clock,
                                              {.small_messages = 0, .large_messages = 3})),
               "a link measured with 0 small messages and 3 large ones");
}

}  // namespace
}  // namespace tombolo::stage
