// Lower bounds by hand, each kind once.
#include "decide/schedule_proof/bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/test_times.h"

namespace tombolo::schedule_proof {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr SimDuration kNoBound{-1};

// The tightest whose reason begins so.
SimDuration bound(const std::vector<LowerBound>& bounds, const std::string& begin) {
  SimDuration best = kNoBound;
  for (const LowerBound& each : bounds) {
    if (each.reason.rfind(begin, 0) == 0) best = std::max(best, each.value);
  }
  return best;
}

// Three stages, four microbatches, F = I = W = 1; between stages 0 and 1 a link that is taken for
// 1 and is 1 away.
struct ThreeStages {
  schedule::PipelineShape shape{.stages = 3, .microbatches = 4};
  schedule::Times times = schedule::equal_times(3, {slots(1), slots(1), slots(1), {}});
  ThreeStages() {
    times.transfer = {slots(1), slots(0)};
    times.latency = {slots(1), slots(0)};
  }
};

TEST(LowerBounds, WholeBackwards) {
  const ThreeStages three;
  const std::vector<LowerBound> bounds = lower_bounds(three.shape, three.times, {}, false);
  // There 1 + 2 + 1 + 1, back 2 + 2 + 2 + 2.
  EXPECT_EQ(bound(bounds, "one microbatch"), slots(13));
  // 4 (1 + 2) each; rank 1 is reached after 1 + 2 and has 2 + 2 behind it, rank 2 one more F and B.
  EXPECT_EQ(bound(bounds, "rank 0 computes"), slots(12));
  EXPECT_EQ(bound(bounds, "rank 1 computes"), slots(3 + 12 + 4));
  EXPECT_EQ(bound(bounds, "rank 2 computes"), slots(4 + 12 + 6));
  // Ready after F; four transfers; then 1 away, F, F, B, B, 2 and B.
  EXPECT_EQ(bound(bounds, "the link from rank 0 to rank 1"), slots(1 + 4 + 11));
  // Ready after 1 + 2 + 1 + 1 and two B; four transfers; then 1 away and B.
  EXPECT_EQ(bound(bounds, "the link from rank 1 to rank 0"), slots(9 + 4 + 3));
  EXPECT_EQ(bound(bounds, "the link from rank 1 to rank 2"), kNoBound);  // takes no time
  EXPECT_EQ(bounds.front().reason,
            "rank 2 computes 12 ms, the first input reaches it after 4 ms, and 6 ms lie behind its "
            "last backward");
}

TEST(LowerBounds, SplitBackwards) {
  const ThreeStages three;
  const std::vector<LowerBound> bounds = lower_bounds(three.shape, three.times, {});
  // There 5, back I, I, 2, I and W of stage 0.
  EXPECT_EQ(bound(bounds, "one microbatch"), slots(5 + 6));
  // F and I before the last gradient: 8, behind it I, 2, I, W. All 12 after the way there are less.
  EXPECT_EQ(bound(bounds, "rank 2 computes"), slots(4 + 8 + 5));
  // 3 + 12 without a way back; 3 + 8 + 4 with it.
  EXPECT_EQ(bound(bounds, "rank 1 computes"), slots(15));
}

// A recomputation hides behind what comes back, except on the last stage.
TEST(LowerBounds, Recomputation) {
  schedule::PipelineShape shape{.stages = 2, .microbatches = 1, .recompute = {true, true}};
  schedule::Times times = schedule::equal_times(2, {slots(1), slots(1), slots(1), slots(2)});
  // F, F, R, B, B: stage 0 recomputes meanwhile. Its work is 1 + 2 + 2.
  EXPECT_EQ(bound(lower_bounds(shape, times, {}, false), "one microbatch"), slots(8));
  EXPECT_EQ(bound(lower_bounds(shape, times, {}, false), "rank 0"), slots(5));
  // Not if it takes longer than all of that: F, R = 9, B.
  times.stages[0].recompute = slots(9);
  EXPECT_EQ(bound(lower_bounds(shape, times, {}, false), "one microbatch"), slots(12));
}

// Three pipelines of two microbatches share a link: 6 transfers of 2, after F, before F, B, 2, B.
TEST(LowerBounds, SharedLink) {
  schedule::PipelineShape shape{
      .stages = 2, .microbatches = 2, .replicas = 6, .cell = 3, .shared = {true}};
  schedule::Times times = schedule::equal_times(2, {slots(1), slots(1), slots(1), {}});
  times.transfer = {slots(2)};
  const std::vector<LowerBound> bounds = lower_bounds(shape, times, {}, false);
  EXPECT_EQ(bound(bounds, "the link for activations"), slots(1 + 12 + 7));
  // After F, 2, F, B; before B.
  EXPECT_EQ(bound(bounds, "the link for gradients"), slots(6 + 12 + 2));
  EXPECT_THAT(bounds.front().reason, HasSubstr("shared by 3 pipelines"));
  // Ranks are numbered by position, then by replica.
  EXPECT_EQ(bound(bounds, "rank 6 computes"), slots(3 + 6 + 4));
}

// Two stages a transfer of 3 apart, F = 1, B = 2: a round trip from stage 0 takes 1 + 3 + 1 + 2 + 3
// + 2, from stage 1 only 1 + 2.
TEST(LowerBounds, Memory) {
  schedule::PipelineShape shape{.stages = 2, .microbatches = 3};
  schedule::Times times = schedule::equal_times(2, {slots(1), slots(1), slots(1), {}});
  times.transfer = {slots(3)};
  const auto limited = [&](std::vector<int32_t> places) {
    return bound(lower_bounds(shape, times, {places}, false),
                 places[0] < 3 ? "rank 0 has memory" : "rank 1 has memory");
  };
  EXPECT_EQ(limited({1, 3}), slots(36));
  EXPECT_EQ(limited({2, 3}), slots(24));
  // Reached after 4; two round trips of 3; then F, B, 3, B.
  EXPECT_EQ(limited({3, 1}), slots(4 + 2 * 3 + 8));
  // No other bound says as much as the first.
  EXPECT_THAT(lower_bounds(shape, times, {{1, 3}}, false).front().reason,
              StartsWith("rank 0 has memory for 1 of 3 microbatches, hence 3 round trips of 12"));
}

// Folded once: rank 0 holds stages 0 and 3, rank 1 stages 1 and 2. Stage 0 is taken from its F to
// its B for all of 4 F and 4 B, stage 3 for one each, F = 1, B = 2: 12 + 3 per microbatch, in two
// places: 4 x 15 / 2.
TEST(LowerBounds, MemoryOfSeveralStages) {
  const schedule::PipelineShape shape = schedule::shape_for(layout::ScheduleKind::kZbV, 2, 4);
  const schedule::Times times = schedule::equal_times(4, {slots(1), slots(1), slots(1), {}});
  const std::vector<LowerBound> bounds = lower_bounds(shape, times, {{2, 8}}, false);
  EXPECT_EQ(bound(bounds, "rank 0 has memory"), slots(30));
  // Stages 1 and 2: 9 + 6, reached after 1, in eight places, with one B behind: 1 + 60 / 8 + 2.
  EXPECT_EQ(bound(bounds, "rank 1 has memory"), SimDuration{10'500'000});
}

}  // namespace
}  // namespace tombolo::schedule_proof
