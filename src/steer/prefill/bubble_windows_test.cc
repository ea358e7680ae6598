#include "steer/prefill/bubble_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tombolo::prefill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

trace::Interval computation(int32_t rank, int64_t iteration, int64_t start, int64_t end) {
  return {.rank = rank, .iteration = iteration, .start = {start}, .end = {end}};
}

trace::Trace trace_of(std::vector<trace::Interval> intervals, int32_t ranks) {
  trace::Trace trace;
  for (int32_t r = 0; r < ranks; ++r) trace.header.ranks.push_back({.rank = r});
  trace.intervals = std::move(intervals);
  return trace;
}

// Two ranks, a period of 100: rank 0 computes [0, 30) and [60, 100), rank 1 [30, 60) and
// [100, 110), which is [0, 10) of the next period.
TEST(BubbleWindows, AreCyclic) {
  std::vector<trace::Interval> intervals;
  for (int64_t k = 0; k < 2; ++k) {
    const int64_t t = 1000 + 100 * k;
    intervals.push_back(computation(0, k + 1, t, t + 30));
    intervals.push_back(computation(0, k + 1, t + 60, t + 100));
    intervals.push_back(computation(1, k + 1, t + 30, t + 60));
    intervals.push_back(computation(1, k + 1, t + 100, t + 110));
  }
  const Bubbles bubbles = *bubbles_of(trace_of(intervals, 2));
  EXPECT_EQ(bubbles.period.ns, 100);
  EXPECT_THAT(bubbles.busy[0], ElementsAre(Span{{0}, {30}}, Span{{60}, {100}}));
  EXPECT_THAT(bubbles.busy[1], ElementsAre(Span{{0}, {10}}, Span{{30}, {60}}));
  EXPECT_DOUBLE_EQ(bubbles.utilization(), (70 + 40) / 200.0);
  EXPECT_THAT(gaps_of(bubbles.busy[0], bubbles.period), ElementsAre(Span{{30}, {60}}));
  EXPECT_THAT(gaps_of(bubbles.busy[1], bubbles.period),
              ElementsAre(Span{{10}, {30}}, Span{{60}, {100}}));
}

TEST(BubbleWindows, GoOnInTheNextPeriod) {
  EXPECT_THAT(gaps_of({{{20}, {30}}, {{50}, {80}}}, {100}),
              ElementsAre(Span{{30}, {50}}, Span{{80}, {120}}));
  EXPECT_THAT(gaps_of({{{20}, {100}}}, {100}), ElementsAre(Span{{0}, {20}}));
  EXPECT_THAT(gaps_of({{{0}, {100}}}, {100}), ElementsAre());
  EXPECT_THAT(gaps_of({}, {100}), ElementsAre(Span{{0}, {100}}));
}

// What a pass exchanges among its shards holds the GPU; the gradient all-reduce does not.
TEST(BubbleWindows, CollectivesInsideAPassHoldTheGpu) {
  trace::Interval inside = computation(0, 1, 30, 40), sum = computation(0, 1, 40, 60);
  inside.lane = sum.lane = trace::Lane::kCollective;
  inside.origin = trace::PassPart{};
  const Bubbles bubbles = *bubbles_of(trace_of(
      {computation(0, 1, 0, 30), inside, sum, computation(0, 1, 60, 70), computation(0, 0, 90, 95)},
      1));
  EXPECT_EQ(bubbles.period.ns, 70);
  EXPECT_THAT(bubbles.busy[0], ElementsAre(Span{{0}, {40}}, Span{{60}, {70}}));
}

// Where ranks disagree, windows are those of the slowest one's period.
TEST(BubbleWindows, OfIterationsThatAreNotAlikeAreTheSlowestRanks) {
  const Bubbles bubbles =
      *bubbles_of(trace_of({computation(0, 1, 0, 10), computation(1, 1, 10, 20),
                            computation(0, 2, 50, 60), computation(1, 2, 70, 80)},
                           2));
  EXPECT_EQ(bubbles.period.ns, 60);
}

// Gaps of 20, 30 and 50 ns: half of the 100 is in the longest.
TEST(BubbleWindows, SayHowTheIdleTimeIsCutUp) {
  Bubbles bubbles{.period = {200}, .busy = {{{{10}, {20}}, {{40}, {60}}, {{90}, {160}}}}};
  EXPECT_THAT(gaps_of(bubbles.busy[0], bubbles.period),
              ElementsAre(Span{{20}, {40}}, Span{{60}, {90}}, Span{{160}, {210}}));
  const GapLengths lengths = gap_lengths(bubbles);
  EXPECT_EQ(lengths.gaps, 3);
  EXPECT_DOUBLE_EQ(lengths.idle_share, 0.5);
  EXPECT_EQ(lengths.p50.ns, 30);
  EXPECT_EQ(lengths.longest.ns, 50);
  EXPECT_EQ(lengths.half_of_idle.ns, 50);
}

TEST(BubbleWindows, NeedAComputation) {
  const auto none = bubbles_of(trace_of({}, 2));
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().text(), HasSubstr("no computation"));
  EXPECT_FALSE(bubbles_of(trace_of({computation(0, 1, 5, 5)}, 1)));
}

}  // namespace
}  // namespace tombolo::prefill
