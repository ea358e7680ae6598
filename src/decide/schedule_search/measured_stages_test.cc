#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decide/schedule_search/schedule_variant.h"

namespace tombolo::schedule_search {
namespace {

using action::ActionKind;
using ::testing::ElementsAre;

// Two positions with two replicas each, F of 1 ms and B of 2 ms, except where a test says more.
struct Seen {
  trace::Trace trace;
  int64_t now = 0;

  explicit Seen(int positions) {
    for (int32_t rank = 0; rank < 2 * positions; ++rank) {
      trace.header.ranks.push_back({rank, rank / 2, "oregon", "a100-80g", rank % 2});
    }
  }
  void add(int32_t rank, ActionKind kind, int32_t stage, int32_t microbatch, int64_t ms) {
    trace::Interval interval;
    interval.rank = rank;
    interval.action = {kind, stage, microbatch};
    interval.iteration = 1;
    interval.start = {now};
    interval.end = {now += ms * 1'000'000};
    trace.intervals.push_back(interval);
  }
};

// In whole microseconds, for medians are sums of nanoseconds.
std::vector<int64_t> passes_us(const plan::StageCost& cost) {
  std::vector<int64_t> us;
  for (const Seconds pass : {cost.forward, cost.backward, cost.recompute}) {
    us.push_back(round_to_ns(pass).ns / 1000);
  }
  return us;
}

const PositionWork kPlanned(2, plan::StageCost{1_ms, 2_ms, 0_ms, 5_ms, 7_ms});

TEST(MeasuredStages, TheSlowestReplicaCountsByItsMedian) {
  Seen seen(2);
  for (int32_t rank = 0; rank < 4; ++rank) {
    for (int32_t m = 0; m < 3; ++m) {
      const bool hiccup = m == 0;  // an outlier that the median does not see
      seen.add(rank, ActionKind::kForward, rank / 2, m, hiccup ? 90 : rank == 3 ? 4 : 1);
      seen.add(rank, ActionKind::kBackward, rank / 2, m, 2);
    }
  }
  const Result<PositionWork> work = measured_work(seen.trace, kPlanned);
  ASSERT_TRUE(work) << work.error().text();
  EXPECT_THAT(passes_us((*work)[0]), ElementsAre(1000, 2000, 0));
  EXPECT_THAT(passes_us((*work)[1]), ElementsAre(4000, 2000, 0));
  EXPECT_EQ((*work)[1].reduce, kPlanned[1].reduce);
  // (4 + 2) / (1 + 2) of what was planned.
  EXPECT_EQ(slowest(*work, kPlanned).position, 1U);
  EXPECT_NEAR(slowest(*work, kPlanned).factor, 2, 1e-9);
}

TEST(MeasuredStages, HalvesAndChunksOfAPositionAddUp) {
  // A fold: position 0 holds stages 0 and 3, which does not recompute; 1 holds 1 and 2.
  Seen seen(2);
  for (int32_t stage = 0; stage < 4; ++stage) {
    const int32_t rank = stage == 0 || stage == 3 ? 0 : 2;
    seen.add(rank, ActionKind::kForward, stage, 0, 2);
    if (stage < 3) seen.add(rank, ActionKind::kRecompute, stage, 0, 2);
    seen.add(rank, ActionKind::kBackwardInput, stage, 0, 3);
    seen.add(rank, ActionKind::kBackwardWeight, stage, 0, 1);
  }
  const Result<PositionWork> work = measured_work(seen.trace, kPlanned);
  ASSERT_TRUE(work) << work.error().text();
  for (const plan::StageCost& at : *work) {
    EXPECT_THAT(passes_us(at), ElementsAre(4000, 8000, 4000));
  }
}

TEST(MeasuredStages, ATraceOfSomethingElseIsRefused) {
  const Result<PositionWork> other = measured_work(Seen(3).trace, kPlanned);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, ::testing::HasSubstr("3 positions"));
  Seen half(2);
  half.add(0, ActionKind::kForward, 0, 0, 1);
  const Result<PositionWork> incomplete = measured_work(half.trace, kPlanned);
  ASSERT_FALSE(incomplete);
  EXPECT_THAT(incomplete.error().message, ::testing::HasSubstr("no backward at position 0"));
}

}  // namespace
}  // namespace tombolo::schedule_search
