#include "predict/cost/mixed_pipeline.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "support/played_pipeline.h"

namespace tombolo::cost {
namespace {

// No execution of 1F1B takes longer.
Seconds mixed_pipeline_at_most(std::span<const StagePass> stages, std::span<const Hop> hops,
                               int64_t microbatches) {
  CHECK(microbatches >= 1, "{} microbatches", microbatches);
  // A schedule in which every action comes again after one period exists. Its longest way from the
  // first forward to the first backward of stage 0 turns at some stage j, which has the warm-up of
  // p - 1 - j microbatches before it turns.
  const Seconds each = period(stages, hops);
  Seconds way, longest;
  for (size_t j = 0; j < stages.size(); ++j) {
    way += stages[j].total();
    if (j > 0) way += 2 * hops[j - 1].transfer;
    longest = std::max(longest, way + static_cast<double>(stages.size() - 1 - j) * each);
  }
  return longest + static_cast<double>(microbatches - 1) * each;
}

Hop hop(double transfer, double occupancy = 0) {
  return {Seconds{transfer}, Seconds{transfer}, Seconds{occupancy}};
}

struct Pipeline {
  std::vector<StagePass> stages;
  std::vector<Hop> hops;
};

TEST(MixedPipeline, EqualStagesAndFreeTransfersGiveTheTextbookFormula) {
  // (m + p - 1)(f + b) = (8 + 4 - 1) x 3 = 33
  const Pipeline p{std::vector<StagePass>(4, {1_s, 2_s}), std::vector<Hop>(3)};
  EXPECT_DOUBLE_EQ(mixed_pipeline(p.stages, p.hops, 8).value, 33);
  EXPECT_DOUBLE_EQ(play_one_forward_one_backward(p.stages, p.hops, 8).value, 33);
}

TEST(MixedPipeline, TheSlowestStageSetsThePace) {
  // Stages of 3, 6 and 3: round trip 12, then 9 more microbatches of 6: 66.
  const Pipeline p{{{1_s, 2_s}, {2_s, 4_s}, {1_s, 2_s}}, std::vector<Hop>(2)};
  EXPECT_DOUBLE_EQ(period(p.stages, p.hops).value, 6);
  EXPECT_DOUBLE_EQ(mixed_pipeline(p.stages, p.hops, 10).value, 66);
}

TEST(MixedPipeline, ASlowLinkIsPaidByTheStagesBesideIt) {
  // Two stages of 3, a link of 5 each way: (3 + 3 + 2 x 5) / 2 = 8 per microbatch, although both
  // stages work 3. Played: the same pace.
  const Pipeline p{{{1_s, 2_s}, {1_s, 2_s}}, {hop(5)}};
  EXPECT_DOUBLE_EQ(period(p.stages, p.hops).value, 8);
  const double difference = play_one_forward_one_backward(p.stages, p.hops, 41).value -
                            play_one_forward_one_backward(p.stages, p.hops, 21).value;
  EXPECT_DOUBLE_EQ(difference, 20 * 8);
  // Beside a stage of 11 that sets the pace anyway it is free: (11 + 1 + 10) / 2 = 11.
  const Pipeline slack{{{3_s, 8_s}, {0.5_s, 0.5_s}}, {hop(5)}};
  EXPECT_DOUBLE_EQ(period(slack.stages, slack.hops).value, 11);
}

TEST(MixedPipeline, ALinkThatIsBusyLongerThanAStageSetsThePace) {
  const Pipeline p{{{1_s, 2_s}, {1_s, 2_s}}, {hop(9, 9)}};
  EXPECT_DOUBLE_EQ(period(p.stages, p.hops).value, 12);  // (6 + 18) / 2: latency counts more
  const Pipeline hidden{{{1_s, 2_s}, {1_s, 2_s}}, {{9_s, 0_s, 9_s}}};
  EXPECT_DOUBLE_EQ(period(hidden.stages, hidden.hops).value, 9);
}

Pipeline random_pipeline(Random& random, bool odd) {
  Pipeline p;
  const auto stages = 1 + static_cast<size_t>(random.below(8));
  for (size_t s = 0; s < stages; ++s) {
    const double forward = 0.5 + 1.5 * random.uniform();
    const double backward = odd ? 0.1 + 4 * random.uniform() : 2 * forward;
    p.stages.push_back({Seconds{forward}, Seconds{backward}});
    const double transfer = random.below(3) == 0 ? 3 * random.uniform() : 0.02;
    if (s > 0) p.hops.push_back(hop(transfer, transfer * random.uniform()));
  }
  return p;
}

// What docs/laws/mixed_pipeline.md states.
TEST(MixedPipeline, StaysCloseToThePlayedScheduleFromAbove) {
  Random random(7);
  double sum = 0, largest = 0;
  constexpr int kCases = 2000;
  for (int i = 0; i < kCases; ++i) {
    const Pipeline p = random_pipeline(random, false);
    const int64_t m = 1 + static_cast<int64_t>(random.below(64));
    const Seconds played = play_one_forward_one_backward(p.stages, p.hops, m);
    const double over = mixed_pipeline(p.stages, p.hops, m) / played - 1;
    EXPECT_GT(over, -1e-12) << "case " << i;
    sum += over;
    largest = std::max(largest, over);
  }
  RecordProperty("mean_percent", std::to_string(100 * sum / kCases));
  RecordProperty("largest_percent", std::to_string(100 * largest));
  EXPECT_LT(sum / kCases, 0.018);
  EXPECT_LT(largest, 0.32);
}

TEST(MixedPipeline, TheBoundHoldsForAnyStages) {
  Random random(8);
  for (int i = 0; i < 2000; ++i) {
    const Pipeline p = random_pipeline(random, true);
    const int64_t m = 1 + static_cast<int64_t>(random.below(40));
    const Seconds played = play_one_forward_one_backward(p.stages, p.hops, m);
    EXPECT_LE(played.value, mixed_pipeline_at_most(p.stages, p.hops, m).value * (1 + 1e-12));
    EXPECT_GE(played.value, round_trip(p.stages, p.hops).value * (1 - 1e-12));
    // In the long run the pace is the period, however the pipeline began.
    const Seconds longer = play_one_forward_one_backward(p.stages, p.hops, m + 400);
    EXPECT_GE(((longer - played) / 400).value, period(p.stages, p.hops).value * (1 - 0.05));
  }
}

TEST(MixedPipeline, HasAMicrobatch) {
  const Pipeline p{std::vector<StagePass>(4, {1_s, 2_s}), std::vector<Hop>(3)};
  EXPECT_DEATH(mixed_pipeline_at_most(p.stages, p.hops, 0), "0 microbatches");
  EXPECT_DEATH(play_one_forward_one_backward(p.stages, p.hops, -1), "-1 microbatches");
}

}  // namespace
}  // namespace tombolo::cost
