#include "base/interruption.h"

#include <gtest/gtest.h>

namespace tombolo {
namespace {

TEST(Interruption, WorkOfOthersGoesOnAndWatchedWorkEnds) {
  Interruption interruption;
  interruption.ask();
  stop_if_interrupted();  // nothing watches it here
  {
    const Interruption::Watched watched(&interruption);
    EXPECT_THROW(stop_if_interrupted(), Interrupted);
  }
  EXPECT_EQ(Interruption::of_this_thread(), nullptr);
  stop_if_interrupted();
}

TEST(Interruption, ASearchThatHeedsItIsAskedOnceAndWhatFollowsIsNotStopped) {
  Interruption interruption;
  const Interruption::Watched watched(&interruption);
  {
    const Interruption::Heeded search(Interruption::of_this_thread());
    EXPECT_FALSE(search.asked());
    interruption.ask();
    EXPECT_TRUE(search.asked());
    stop_if_interrupted();
    EXPECT_FALSE(interruption.heeded());
  }
  EXPECT_TRUE(interruption.heeded());
  stop_if_interrupted();
}

TEST(Interruption, ASecondTimeEndsTheSearchItself) {
  Interruption interruption;
  const Interruption::Watched watched(&interruption);
  const Interruption::Heeded search(&interruption);
  interruption.ask();
  interruption.ask();
  EXPECT_THROW(stop_if_interrupted(), Interrupted);
}

TEST(Interruption, WithoutOneASearchIsNeverAsked) {
  const Interruption::Heeded search(Interruption::of_this_thread());
  EXPECT_FALSE(search.asked());
}

}  // namespace
}  // namespace tombolo
