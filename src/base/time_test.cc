#include "base/time.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace tombolo {
namespace {

TEST(Time, RoundsToTheNearestNanosecond) {
  EXPECT_EQ(round_to_ns(20_ms).ns, 20'000'000);
  EXPECT_EQ(round_to_ns(1.4_ns).ns, 1);
  EXPECT_EQ(round_to_ns(1.6_ns).ns, 2);
  EXPECT_EQ(round_to_ns(Seconds{2.5e-9}).ns, 3);  // halves away from zero
  EXPECT_EQ(round_to_ns(Seconds{-2.5e-9}).ns, -3);
  EXPECT_EQ(round_to_ns(Seconds{0}).ns, 0);
}

TEST(Time, InstantsAndSpansKeepApart) {
  static_assert(std::is_same_v<decltype(SimTime{} - SimTime{}), SimDuration>);
  static_assert(std::is_same_v<decltype(SimTime{} + SimDuration{}), SimTime>);
  static_assert(!std::is_convertible_v<SimTime, SimDuration>);
  const SimTime start{100};
  EXPECT_EQ(start + SimDuration{20} * 3, SimTime{160});
  EXPECT_EQ((SimTime{160} - start).ns, 60);
  EXPECT_LT(start, SimTime{101});
  EXPECT_DOUBLE_EQ(seconds(SimDuration{1'500'000'000}).value, 1.5);
}

TEST(TimeDeathTest, SpansBeyondSixtyFourBitsAreABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(round_to_ns(Seconds{1e10}), "does not fit into 64 bits of nanoseconds");
  EXPECT_DEATH(round_to_ns(Seconds{0.0 / 0.0}), "does not fit");
}

TEST(Clock, TheManualClockMovesWhenToldOrSleptOn) {
  ManualClock clock;
  clock.advance({5});
  EXPECT_EQ(clock.now(), SimTime{5});
  clock.sleep_until({20});
  EXPECT_EQ(clock.now(), SimTime{20});
  clock.sleep_until({10});  // in the past: returns at once
  EXPECT_EQ(clock.now(), SimTime{20});
}

TEST(Clock, TheSystemClockDoesNotStepBack) {
  SystemClock clock;
  const SimTime before = clock.now();
  clock.sleep_until(before);  // already there
  EXPECT_GE(clock.now(), before);
}

TEST(Clock, TheManualClockDoesNotStepBackEither) {
  ManualClock clock;
  EXPECT_DEATH(clock.advance({-3}), "a clock that steps back by 3 ns");
}

}  // namespace
}  // namespace tombolo
