#include "perform/train/timed_strands.h"

#include <gmock/gmock.h>

#include <array>
#include <stdexcept>

namespace tombolo::train {
namespace {

using namespace std::chrono_literals;

// Both of a pair wait until the other runs too: one after the other they would wait for ever.
TEST(TimedStrands, TwoRunAtTheSameTimeOnEveryShard) {
  std::array<std::atomic<int>, 2> together{};
  std::atomic<int> alone = 0;
  const auto meet = [&](int32_t shard) {
    auto& both = together[static_cast<size_t>(shard)];
    ++both;
    while (both < 2) std::this_thread::yield();
  };
  const std::vector<TimedStep> steps = {{.first = [&](int32_t) { ++alone; }},
                                        {.first = meet, .second = meet},
                                        {.first = [&](int32_t) { ++alone; }}};
  TimedStrands strands(2);
  for (int again = 0; again < 3; ++again) {
    for (auto& each : together) each = 0;
    const std::vector<StepTime> times = strands.run(steps);
    ASSERT_EQ(times.size(), 3U);
    EXPECT_EQ(times[0].second, 0ns);
    EXPECT_GT(times[1].first, 0ns);
    EXPECT_GT(times[1].second, 0ns);
  }
  EXPECT_EQ(alone, 3 * 2 * 2);
}

// The slowest shard's time, which is at least what it slept.
TEST(TimedStrands, CountUntilTheLastShardIsThrough) {
  const auto sleep = [](int32_t shard) { std::this_thread::sleep_for(shard == 1 ? 3ms : 0ms); };
  const auto times = TimedStrands(2).run(
      std::vector<TimedStep>{{.first = sleep}, {.first = [](int32_t) {}, .second = sleep}});
  EXPECT_GE(times[0].first, 3ms);
  EXPECT_GE(times[1].second, 3ms);
}

TEST(TimedStrands, WhatAnOperatorThrowsEndsAllOfThem) {
  const auto fails = [](int32_t shard) {
    if (shard == 1) throw std::runtime_error("no memory");
  };
  const auto nothing = [](int32_t) {};
  for (const bool beside : {false, true}) {
    std::atomic<int> told = 0;
    TimedStrands strands(2, [&] { ++told; });
    const std::vector<TimedStep> steps = {beside ? TimedStep{nothing, fails} : TimedStep{fails},
                                          {nothing, nothing}};
    EXPECT_THROW(strands.run(steps), std::runtime_error);
    EXPECT_GE(told, 1);
  }
}

}  // namespace
}  // namespace tombolo::train
