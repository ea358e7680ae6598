// Pipelines whose speeds change, and a batch that is divided by them, in virtual time.
#include "predict/sim/batch_steering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "predict/sim/simulate.h"
#include "support/test_plan.h"

namespace tombolo::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr SimDuration kOneMs{1'000'000};

plan::Plan pipelines(int count, int stages, bool apart) {
  plan::Plan plan = make_test_plan({.stages = stages,
                                    .microbatches = 7,
                                    .replicas = count,
                                    .forward = "10 ms",
                                    .backward = "20 ms",
                                    .apart = apart});
  plan.parallelism.adaptive_batch = true;
  return plan;
}

SimDuration period_of(const trace::Trace& trace, int64_t iteration) {
  const std::vector<trace::IterationTime> times = trace::iteration_times(trace);
  return times[static_cast<size_t>(iteration)].start -
         times[static_cast<size_t>(iteration - 1)].start;
}

// 7 x 30 ms, then 7 x 60.6 ms, then the longer of 8 x 30 ms and 4 x 60.6 ms; the medians of five notice the third
// slow iteration, 22, and the fourth after it, 25, has another division.
TEST(BatchSteering, ASlowerPipelineGivesMicrobatchesToTheOthers) {
  const plan::Plan plan = pipelines(4, 1, false);
  const auto out =
      simulate(plan, {.iterations = 40,
                      .steers_batch = true,
                      .slowdowns = {{.replica = 3, .first_iteration = 20, .times = 2.02}}});
  ASSERT_TRUE(out) << out.error().text();
  ASSERT_EQ(out->batch_decisions.size(), 1u);
  EXPECT_THAT(out->batch_decisions[0].microbatches, ElementsAre(8, 8, 8, 4));
  EXPECT_EQ(out->batch_decisions[0].first_iteration, 25);
  EXPECT_EQ(period_of(out->trace, 10), kOneMs * 210);
  EXPECT_EQ(period_of(out->trace, 21), SimDuration{424'200'000});
  EXPECT_EQ(period_of(out->trace, 30), SimDuration{242'400'000});
  // What a Plan of these numbers takes.
  plan::Plan best = plan;
  best.parallelism.microbatches_per_replica = {8, 8, 8, 4};
  const auto as_planned = simulate(
      best, {.iterations = 6, .slowdowns = {{.replica = 3, .first_iteration = 1, .times = 2.02}}});
  EXPECT_EQ(period_of(as_planned->trace, 3), period_of(out->trace, 30));
  // The Trace says so, and why.
  std::vector<double> of_last;
  for (const trace::Record& record : out->trace.records) {
    if (record.name != "microbatches" || record.rank != 3) continue;
    of_last.push_back(record.value);
  }
  ASSERT_EQ(of_last.size(), 40u);
  EXPECT_EQ(of_last[23], 7);
  EXPECT_EQ(of_last[24], 4);
  const auto told = std::find_if(out->trace.records.begin(), out->trace.records.end(),
                                 [](const auto& record) { return !record.reason.empty(); });
  ASSERT_NE(told, out->trace.records.end());
  EXPECT_EQ(told->iteration, 25);
  EXPECT_EQ(told->rank, 0);
  EXPECT_THAT(told->reason, HasSubstr("pipeline 3 takes 60.6 ms for a microbatch, 30 ms before"));
}

// Over a WAN iterations overlap, and groups of gradients leave one by one. Of stages of 30 and 60.6 ms the slow pipeline
// takes 121.2 + 6 x 60.6 = 485 ms with 7 microbatches, 303 ms with 4; the other one 60 + 9 x 30 = 330 ms with 10.
TEST(BatchSteering, IterationsThatOverlapAreDividedToo) {
  const plan::Plan plan = pipelines(2, 2, true);
  const auto out =
      simulate(plan, {.iterations = 30,
                      .steers_batch = true,
                      .slowdowns = {{.replica = 1, .first_iteration = 10, .times = 2.02}}});
  ASSERT_TRUE(out) << out.error().text();
  ASSERT_EQ(out->batch_decisions.size(), 1u);
  EXPECT_THAT(out->batch_decisions[0].microbatches, ElementsAre(10, 4));
  EXPECT_EQ(period_of(out->trace, 27), kOneMs * 330);
  EXPECT_GT(period_of(out->trace, 12), kOneMs * 484);
}

TEST(BatchSteering, EqualSpeedsOrAPlanThatDoesNotAskChangeNothing) {
  plan::Plan plan = pipelines(4, 1, false);
  const auto equal = simulate(plan, {.iterations = 20, .steers_batch = true});
  EXPECT_TRUE(equal->batch_decisions.empty());
  const auto plain = simulate(plan, {.iterations = 20, .alike = Alike::kPlayed});
  EXPECT_EQ(equal->trace.intervals, plain->trace.intervals);
  plan.parallelism.adaptive_batch = false;
  const auto not_asked =
      simulate(plan, {.iterations = 20,
                      .steers_batch = true,
                      .slowdowns = {{.replica = 3, .first_iteration = 5, .times = 2}}});
  EXPECT_TRUE(not_asked->batch_decisions.empty());
  EXPECT_TRUE(not_asked->trace.records.empty());
}

}  // namespace
}  // namespace tombolo::sim
