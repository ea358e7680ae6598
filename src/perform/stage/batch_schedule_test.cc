#include "perform/stage/batch_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>

#include "support/test_plan.h"

namespace tombolo::stage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BatchSchedule, AnOrderHoldsFromItsIterationOnOnceItIsDecided) {
  SystemClock clock;
  BatchSchedule batch(clock);
  EXPECT_FALSE(*batch.begin(1, nullptr));
  EXPECT_TRUE(batch.ask(1, 4, {3, 1})->in_time);
  EXPECT_FALSE(*batch.begin(2, nullptr));
  EXPECT_TRUE(batch.decide(1, true));
  EXPECT_FALSE(*batch.begin(3, nullptr));
  EXPECT_THAT(**batch.begin(4, nullptr), ElementsAre(3, 1));
  EXPECT_FALSE(*batch.begin(5, nullptr)) << "told once";
}

TEST(BatchSchedule, WhatHasBegunIsNotPromised) {
  SystemClock clock;
  BatchSchedule batch(clock);
  EXPECT_FALSE(*batch.begin(4, nullptr));
  EXPECT_FALSE(batch.ask(1, 4, {3, 1})->in_time);
  EXPECT_FALSE(*batch.begin(5, nullptr)) << "waits for nothing";
  EXPECT_TRUE(batch.decide(1, false));
  EXPECT_TRUE(batch.ask(2, 6, {1, 3})->in_time);
  EXPECT_TRUE(batch.decide(2, false));
  EXPECT_FALSE(*batch.begin(6, nullptr)) << "withdrawn";
}

// However long: the decision is the only thing that ends the wait, or a stop.
TEST(BatchSchedule, WhoComesBeforeTheDecisionWaitsForIt) {
  SystemClock clock;
  BatchSchedule batch(clock);
  EXPECT_TRUE(batch.ask(1, 2, {3, 1})->in_time);
  EXPECT_FALSE(*batch.begin(1, nullptr));
  auto waits = std::async(std::launch::async, [&] { return batch.begin(2, nullptr); });
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  EXPECT_TRUE(batch.decide(1, true));
  EXPECT_THAT(**waits.get(), ElementsAre(3, 1));
  EXPECT_TRUE(batch.ask(2, 3, {2, 2})->in_time);
  auto stopped = std::async(std::launch::async, [&] { return batch.begin(3, nullptr); });
  batch.stop({ErrorCode::kLostPeer, "the launcher went away", {}, ""});
  EXPECT_THAT(stopped.get().error().text(), HasSubstr("the launcher went away"));
}

TEST(BatchSchedule, RefusesWordsThatDoNotFollow) {
  SystemClock clock;
  BatchSchedule batch(clock);
  EXPECT_THAT(batch.decide(1, true).error().text(), HasSubstr("decided and not asked"));
  EXPECT_TRUE(batch.ask(1, 2, {3, 1})->in_time);
  EXPECT_THAT(batch.ask(2, 3, {3, 1}).error().text(), HasSubstr("before order 1 was decided"));
  EXPECT_FALSE(batch.decide(2, true));
  EXPECT_TRUE(batch.decide(1, false));
  EXPECT_FALSE(*batch.begin(5, nullptr));
  EXPECT_FALSE(batch.ask(2, 5, {1, 3})->in_time);
  EXPECT_THAT(batch.decide(2, true).error().text(), HasSubstr("too late"));
}

// One sample less than the batch has, too few for a pipeline of two stages, and one pipeline more.
TEST(BatchSchedule, WhatThisRankCannotUseItRefusesAtOnce) {
  plan::Plan plan = make_test_plan({.stages = 2, .microbatches = 6, .replicas = 2});
  plan.parallelism.adaptive_batch = true;
  SystemClock clock;
  BatchSchedule batch(clock);
  batch.check_with([&](const std::vector<int64_t>& each) -> Status {
    TRY(divide(plan, 3, each));
    return {};
  });
  int64_t order = 0;
  for (const std::vector<int64_t>& each :
       {std::vector<int64_t>{8, 3}, std::vector<int64_t>{11, 1}, std::vector<int64_t>{4, 4, 4}}) {
    const auto answer = batch.ask(++order, 4, each);
    ASSERT_TRUE(answer);
    EXPECT_FALSE(answer->in_time);
    EXPECT_THAT(answer->unusable, HasSubstr("for 2 pipelines that have 12 together"));
    EXPECT_FALSE(*batch.begin(order, nullptr)) << "waits for nothing";
    EXPECT_TRUE(batch.decide(order, false));
  }
  const auto answer = batch.ask(++order, 5, {8, 4});
  EXPECT_TRUE(answer->in_time);
  EXPECT_EQ(answer->unusable, "");
  // Rank 3 is the second stage of the second pipeline: a forward and a backward of each of four.
  const auto division = divide(plan, 3, {8, 4});
  ASSERT_TRUE(division);
  EXPECT_EQ(
      std::count_if(division->order.begin(), division->order.end(),
                    [](const auto& each) { return each.kind == action::ActionKind::kForward; }),
      4);
}

}  // namespace
}  // namespace tombolo::stage
