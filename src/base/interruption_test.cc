#include "base/interruption.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/parallel.h"

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

TEST(WorkLimit, EndsWorkAndLoopsThatThreadsShare) {
  std::atomic<int> asked{0};
  const std::function<bool()> ended = [&] { return ++asked > 100; };
  std::atomic<int> done{0};
  const auto loop = [&] {
    parallel_for(1000, 3, [&](size_t) { ++done; });
    return 7;
  };
  EXPECT_FALSE(unless(ended, loop));
  EXPECT_LT(done, 1000);
  EXPECT_EQ(WorkLimit::of_this_thread(), nullptr);
  EXPECT_EQ(unless([] { return false; }, loop), 7);
  EXPECT_EQ(unless({}, loop), 7);
}

TEST(WorkLimit, OfOneInsideAnotherTheOuterCountsToo) {
  bool over = false;
  const auto inner = [] {
    stop_if_interrupted();
    return 1;
  };
  const auto outer = [&] {
    EXPECT_EQ(unless([] { return false; }, inner), 1);
    over = true;
    EXPECT_FALSE(unless([] { return false; }, inner));
    stop_if_interrupted();
    return 2;
  };
  EXPECT_FALSE(unless([&] { return over; }, outer));
  stop_if_interrupted();
}

}  // namespace
}  // namespace tombolo
