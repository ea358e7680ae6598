#include "perform/stage/prompt_load.h"

#include <gtest/gtest.h>

namespace tombolo::stage {
namespace {

// Two layers of 10 ns, 5 for the head: what does not end in time is not begun.
TEST(PromptLoadFiller, WaitsForALayerThatEndsInTime) {
  ManualClock clock;
  PromptLoadFiller filler(2, {10}, {5}, clock);
  EXPECT_FALSE(filler.fill({9}));
  EXPECT_EQ(clock.now().ns, 0);
  EXPECT_TRUE(filler.fill({10}));
  EXPECT_EQ(clock.now().ns, 10);
  EXPECT_FALSE(filler.fill({24}));
  EXPECT_EQ(filler.prompts(), 0);
  EXPECT_TRUE(filler.fill({25}));
  EXPECT_EQ(clock.now().ns, 25);
  EXPECT_EQ(filler.prompts(), 1);
  EXPECT_TRUE(filler.fill(kNever));
  EXPECT_EQ(clock.now().ns, 35);
}

// Sleeps 3 ns too long: the next layer gets that much less.
TEST(PromptLoadFiller, MakesUpForLateSleeps) {
  class LateClock : public ManualClock {
   public:
    void sleep_until(SimTime instant) override { ManualClock::sleep_until(instant + late); }
    SimDuration late{3};
  } clock;
  PromptLoadFiller filler(100, {10}, {0}, clock);
  EXPECT_TRUE(filler.fill(kNever));
  EXPECT_EQ(clock.now().ns, 13);
  clock.late = {0};
  EXPECT_TRUE(filler.fill(kNever));
  EXPECT_EQ(clock.now().ns, 20);
}

}  // namespace
}  // namespace tombolo::stage
