#include "steer/tune/batch_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace tombolo::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Pipelines of some positions, each with what a microbatch computes there; nothing else takes time.
struct Pipelines {
  std::vector<std::vector<Seconds>> each;

  int32_t count() const { return static_cast<int32_t>(each.size()); }
  int32_t positions() const { return static_cast<int32_t>(each.front().size()); }
  Seconds passes(int32_t pipeline, int64_t m) const {
    Seconds first, next;
    for (const Seconds c : each[static_cast<size_t>(pipeline)]) {
      first += c;
      next = std::max(next, c);
    }
    return first + next * static_cast<double>(m - 1);
  }
};

BatchController controller_of(const Pipelines& pipelines, std::vector<int64_t> microbatches) {
  BatchController::Options options;
  options.microbatches = std::move(microbatches);
  options.positions = pipelines.positions();
  options.transfers.resize(pipelines.each.size());
  return BatchController(options);
}

// All ranks report the iteration, with what the controller has in use.
std::optional<BatchDecision> report_all(BatchController& controller, const Pipelines& pipelines,
                                        int64_t iteration) {
  std::optional<BatchDecision> out;
  const std::vector<int64_t> in_use = controller.microbatches();
  for (int32_t position = 0; position < pipelines.positions(); ++position) {
    for (int32_t i = 0; i < pipelines.count(); ++i) {
      const auto at = static_cast<size_t>(i);
      const int64_t m = in_use[at];
      EXPECT_FALSE(out) << "decided before all had reported";
      out =
          controller.add(position * pipelines.count() + i, iteration,
                         {.microbatches = m,
                          .computing = pipelines.each[at][static_cast<size_t>(position)] * real(m),
                          .passes = pipelines.passes(i, m)});
    }
  }
  return out;
}

// One device of four becomes 2.02 times slower. At 7 each the slow one takes 7 x 2.02 = 14.14 of 10 ms; at 8, 8, 8, 4
// the others 8 and it 8.08. The third of five slow iterations makes the median slow.
TEST(BatchController, GivesWhatASlowerPipelineHasToTheOthers) {
  Pipelines four{{{10_ms}, {10_ms}, {10_ms}, {10_ms}}};
  BatchController controller = controller_of(four, {7, 7, 7, 7});
  for (int64_t i = 1; i < 20; ++i) EXPECT_FALSE(report_all(controller, four, i));
  four.each[3] = {20.2_ms};
  EXPECT_FALSE(report_all(controller, four, 20));
  EXPECT_FALSE(report_all(controller, four, 21));
  const auto decision = report_all(controller, four, 22);
  ASSERT_TRUE(decision);
  EXPECT_THAT(decision->microbatches, ElementsAre(8, 8, 8, 4));
  EXPECT_EQ(decision->first_iteration, 25);
  EXPECT_THAT(to_line(*decision),
              HasSubstr("microbatches 7,7,7,7 -> 8,8,8,4 from iteration 25 on: pipeline 3 takes "
                        "20.2 ms for a microbatch, 10 ms before: passes end after 80.8 ms instead "
                        "of 141 ms"));
  EXPECT_FALSE(report_all(controller, four, 23)) << "not settled";
  controller.settle(true);
  for (int64_t i = 24; i < 60; ++i) EXPECT_FALSE(report_all(controller, four, i));
  // And gets them back.
  four.each[3] = {10_ms};
  std::optional<BatchDecision> back;
  for (int64_t i = 60; i < 70 && !back; ++i) back = report_all(controller, four, i);
  ASSERT_TRUE(back);
  EXPECT_THAT(back->microbatches, ElementsAre(7, 7, 7, 7));
}

TEST(BatchController, OneSlowIterationOrAGainTooSmallChangesNothing) {
  Pipelines two{{{10_ms}, {10_ms}}};
  BatchController controller = controller_of(two, {20, 20});
  for (int64_t i = 1; i < 100; ++i) {
    const bool disturbed = i % 5 == 0;
    two.each[static_cast<size_t>(i % 2)] = {disturbed ? 40_ms : 10_ms};
    EXPECT_FALSE(report_all(controller, two, i)) << i;
    two.each = {{10_ms}, {10_ms}};
  }
  two.each[1] = {10.9_ms};  // 20 x 10.9 = 218 ms; 21 x 10 = 210 ms would be 3.7 % less
  for (int64_t i = 100; i < 120; ++i) EXPECT_FALSE(report_all(controller, two, i));
}

// A pipeline is as fast as its slowest stage; here that of the second position, 20 ms against 10 of the other
// pipeline: 5 + 20 m = 5 + 10 (30 - m) + ... for m = 10.
TEST(BatchController, APipelineIsAsFastAsItsSlowestStage) {
  const Pipelines two{{{5_ms, 20_ms}, {5_ms, 10_ms}}};
  BatchController controller = controller_of(two, {15, 15});
  std::optional<BatchDecision> decision;
  for (int64_t i = 1; i < 10 && !decision; ++i) decision = report_all(controller, two, i);
  ASSERT_TRUE(decision);
  EXPECT_THAT(decision->microbatches, ElementsAre(10, 20));
  EXPECT_THAT(decision->reason,
              HasSubstr("pipeline 0 takes 20 ms for a microbatch, pipeline 1 10 ms"));
}

// Stages that wait for one another: the pipeline takes longer than what any of them computes.
TEST(BatchController, WhatStagesWaitForCounts) {
  BatchController::Options options;
  options.microbatches = {10, 10};
  options.positions = 2;
  options.transfers = {4_ms, 0_ms};
  BatchController controller(options);
  std::optional<BatchDecision> decision;
  for (int64_t i = 1; i < 10 && !decision; ++i) {
    for (int32_t rank = 0; rank < 4; ++rank) {
      const bool waits = rank % 2 == 0;  // first 24 ms, further ones 30 and 10 ms
      decision = controller.add(rank, i,
                                {.microbatches = 10,
                                 .computing = 100_ms,
                                 .passes = waits ? 24_ms + 9 * 30_ms : 20_ms + 9 * 10_ms});
    }
  }
  ASSERT_TRUE(decision);
  EXPECT_THAT(decision->microbatches, ElementsAre(5, 15));
}

TEST(BatchController, WhatCameTooLateIsDecidedAgainFurtherAhead) {
  const Pipelines two{{{10_ms}, {30_ms}}};
  BatchController controller = controller_of(two, {8, 8});
  std::optional<BatchDecision> decision;
  int64_t i = 1;
  for (const int64_t ahead : {3, 6, 12}) {
    for (decision.reset(); !decision; ++i) decision = report_all(controller, two, i);
    EXPECT_EQ(decision->first_iteration, i - 1 + ahead);
    controller.settle(false);
    EXPECT_THAT(controller.microbatches(), ElementsAre(8, 8));
  }
}

TEST(BatchController, AReportThatComesTwiceCountsOnceAndOrderDoesNotMatter) {
  BatchController controller = controller_of({{{10_ms}, {30_ms}}}, {8, 8});
  const PassTimes fast{.microbatches = 8, .computing = 80_ms, .passes = 80_ms};
  const PassTimes slow{.microbatches = 8, .computing = 240_ms, .passes = 240_ms};
  for (int64_t i = 1; i < 20; ++i) EXPECT_FALSE(controller.add(0, i, fast));
  for (int64_t i = 1; i < 6; ++i) {
    EXPECT_FALSE(controller.add(1, i, slow));
    EXPECT_FALSE(controller.add(1, i, slow));
  }
  const auto decision = controller.add(1, 6, slow);  // the first one warms up
  ASSERT_TRUE(decision);
  EXPECT_THAT(decision->microbatches, ElementsAre(12, 4));
  EXPECT_EQ(decision->first_iteration, 19 + 3) << "behind what any rank has begun";
}

// Whatever is reported: the sum stays, no pipeline has fewer than positions, and the longest one does not get longer.
TEST(BatchController, DividesWhatThereIs) {
  Random random(71);
  for (int round = 0; round < 200; ++round) {
    Pipelines pipelines;
    std::vector<int64_t> microbatches;
    int64_t all = 0;
    for (uint64_t i = 0; i < 1 + random.below(6); ++i) {
      pipelines.each.push_back({Seconds{1e-3 * static_cast<double>(1 + random.below(50))},
                                Seconds{1e-3 * static_cast<double>(1 + random.below(50))}});
      microbatches.push_back(static_cast<int64_t>(2 + random.below(20)));
      all += microbatches.back();
    }
    BatchController controller = controller_of(pipelines, microbatches);
    const auto longest = [&](const std::vector<int64_t>& of) {
      Seconds most;
      for (int32_t i = 0; i < pipelines.count(); ++i)
        most = std::max(most, pipelines.passes(i, of[static_cast<size_t>(i)]));
      return most;
    };
    for (int64_t i = 1; i < 30; ++i) {
      const auto decision = report_all(controller, pipelines, i);
      if (!decision) continue;
      int64_t sum = 0;
      for (const int64_t m : decision->microbatches) {
        EXPECT_GE(m, 2) << "as many as positions";
        sum += m;
      }
      EXPECT_EQ(sum, all);
      EXPECT_LT(longest(decision->microbatches), longest(decision->before));
      controller.settle(true);
    }
  }
}

}  // namespace
}  // namespace tombolo::tune
