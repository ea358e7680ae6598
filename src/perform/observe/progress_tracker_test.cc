#include "perform/observe/progress_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "spec/plan/plan_file.h"
#include "support/test_plan.h"

namespace tombolo::observe {
namespace {

constexpr int64_t kMs = 1'000'000;

stage::IterationReport report(int64_t iteration, int64_t start_ms, int64_t end_ms,
                              std::optional<double> loss = {}) {
  return {iteration, {start_ms * kMs}, {end_ms * kMs}, loss};
}

// With a model of that many tokens a sample; its other fields are not used here.
plan::Plan with_tokens(plan::Plan plan, int64_t tokens) {
  plan.model.layers = std::ssize(plan.stages);
  plan.model.sequence = tokens;
  return plan;
}

TEST(ProgressTracker, AnIterationIsOverWhenTheLastRankIs) {
  const plan::Plan plan =
      with_tokens(make_test_plan({.stages = 2, .microbatches = 2, .steps = 10}), 3);
  ProgressTracker book(plan, 1);
  // Rank 1 is through with iteration 1 at 90 ms, rank 0, which began at 0, at 100 ms.
  EXPECT_FALSE(*book.add(1, report(1, 10, 90, 5.0)));
  EXPECT_EQ(book.steps_done(), 0);
  const auto progress = *book.add(0, report(1, 0, 100));
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->step, 1);
  EXPECT_EQ(progress->loss, 5.0);
  EXPECT_DOUBLE_EQ(progress->iteration.value, 0.1);
  ASSERT_TRUE(progress->tokens_per_s);
  EXPECT_DOUBLE_EQ(*progress->tokens_per_s, 2 * 3 / 0.1);  // two samples
  EXPECT_DOUBLE_EQ(progress->remaining.value, 9 * 0.1);
}

TEST(ProgressTracker, AReportThatComesTwiceCountsOnce) {
  const plan::Plan plan = make_test_plan({.stages = 2, .microbatches = 2, .steps = 10});
  ProgressTracker book(plan, 1);
  EXPECT_FALSE(*book.add(1, report(1, 10, 90, 5.0)));
  EXPECT_FALSE(*book.add(1, report(1, 10, 90, 5.0))) << "rank 0 has not reported";
  EXPECT_TRUE(*book.add(0, report(1, 0, 100)));
  EXPECT_FALSE(*book.add(0, report(1, 0, 100))) << "all had, and it opens nothing anew";
  EXPECT_EQ(book.steps_done(), 1);
  EXPECT_TRUE(book.without_the_rest().empty());
  EXPECT_EQ(book.add(1, report(11, 0, 100)).error().message, "rank 1 reported step 11 of 10");
}

TEST(ProgressTracker, WaitsForOtherDatacentersAreAShareOfAllRanksTime) {
  const plan::Plan plan = make_test_plan({.stages = 2, .microbatches = 2, .steps = 10});
  ProgressTracker book(plan, 1);
  for (const auto& [rank, waited_ms] : {std::pair(0, 90), std::pair(1, 40)}) {
    stage::IterationReport each = report(1, 0, 100);
    each.wan_wait = {waited_ms * kMs};
    const auto progress = *book.add(rank, each);
    if (rank == 1) {
      EXPECT_DOUBLE_EQ(progress->wan_wait_share, 0.65);  // 130 ms of 200
    }
  }
}

TEST(ProgressTracker, TheMedianLeavesTheFirstIterationOut) {
  const plan::Plan plan = make_test_plan({.stages = 1, .steps = 4});
  ProgressTracker book(plan, 1);
  EXPECT_FALSE(book.usual_iteration());
  ASSERT_TRUE(book.add(0, report(1, 0, 500, 5.0)));
  EXPECT_EQ(book.usual_iteration(), Seconds{0.5});
  ASSERT_TRUE(book.add(0, report(2, 500, 510, 4.0)));
  ASSERT_TRUE(book.add(0, report(3, 510, 530, 3.0)));
  ASSERT_TRUE(book.add(0, report(4, 530, 560, 2.0)));
  const RunSummary summary = book.summary();
  EXPECT_DOUBLE_EQ(summary.iteration.value, 0.02);  // of 10, 20 and 30 ms
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(summary.first_loss, 5.0);
  EXPECT_EQ(summary.final_loss, 2.0);
  EXPECT_FALSE(summary.tokens_per_s) << "no model, no tokens";
}

// 1: 0 to 100 ms, 2: 60 to 190, 3: 130 to 270. The last one began when nothing was under way.
TEST(ProgressTracker, IterationsThatOverlapLastFromEndToEnd) {
  const plan::Plan plan = make_test_plan({.stages = 1, .replicas = 2, .steps = 4, .apart = true});
  ProgressTracker book(plan, 1);
  std::vector<int64_t> lasted_ms;
  for (const auto& [start, end] : {std::pair(0, 100), {60, 190}, {130, 270}, {300, 350}}) {
    const auto iteration = static_cast<int64_t>(lasted_ms.size()) + 1;
    ASSERT_TRUE(book.add(0, report(iteration, start, end)));
    const auto progress = book.add(1, report(iteration, start, end - 1));
    ASSERT_TRUE(progress && *progress);
    lasted_ms.push_back(std::llround((*progress)->iteration.value * 1000));
  }
  EXPECT_THAT(lasted_ms, ::testing::ElementsAre(100, 90, 80, 50));
}

TEST(ProgressTracker, AfterAResumeStepsGoOnCounting) {
  const plan::Plan plan = make_test_plan({.stages = 1, .steps = 4});
  ProgressTracker book(plan, 3);
  EXPECT_EQ(book.steps_done(), 2);
  const auto progress = book.add(0, report(3, 0, 10));
  ASSERT_TRUE(progress && *progress);
  EXPECT_DOUBLE_EQ((*progress)->remaining.value, 0.01);
}

// 0.1 + 0.2 + 0.3 in doubles depends on the order; that of the replicas counts, not of arrival.
TEST(ProgressTracker, TheLossIsTheMeanOfTheReplicas) {
  const plan::Plan plan = make_test_plan({.stages = 1, .replicas = 3});
  std::vector<double> losses;
  for (const std::vector<int32_t>& arrivals : {std::vector{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    ProgressTracker book(plan, 1);
    for (const int32_t rank : arrivals) {
      ASSERT_TRUE(book.add(rank, report(1, 0, 10, 0.1 * (rank + 1))));
    }
    losses.push_back(*book.summary().final_loss);
  }
  EXPECT_EQ(losses[0], (0.1 + 0.2 + 0.1 * 3) / 3);
  EXPECT_THAT(losses, ::testing::Each(losses[0]));
}

// Ranks 2 and 3 hold stage 1 of 2 stages x 2 replicas.
TEST(ProgressTracker, ReplicasThatPartAreNamed) {
  const plan::Plan plan = make_test_plan({.stages = 2, .replicas = 2});
  const auto end = [&](const std::string& last) {
    ProgressTracker book(plan, 1);
    for (int32_t rank = 0; rank < 4; ++rank) {
      stage::IterationReport each = report(1, 0, 10);
      each.weights_digest = rank < 2 ? "a" : rank == 2 ? "b" : last;
      const auto progress = book.add(rank, each);
      if (rank == 3) return progress ? "" : progress.error().message;
      EXPECT_TRUE(progress);
    }
    return std::string();
  };
  EXPECT_EQ(end("b"), "");
  EXPECT_EQ(end("c"),
            "after iteration 1 rank 2 (paris, replica 0) and rank 3 (paris, replica 1) hold "
            "different weights of stage 1: they should be equal bit by bit");
}

// Two batches of mean 2 and one of 5: (2 x 2 + 5) / 3.
TEST(ProgressTracker, HeldOutLossesAreWeightedByTheirBatches) {
  const plan::Plan plan = make_test_plan({.stages = 1, .replicas = 2});
  ProgressTracker book(plan, 1);
  book.add_evaluation(0, {.step = 5, .loss = 9, .batches = 2});
  book.add_evaluation(1, {.step = 10, .loss = 5, .batches = 1});
  book.add_evaluation(0, {.step = 10, .loss = 2, .batches = 2});
  EXPECT_EQ(book.summary().evaluation_loss, 3);
}

TEST(MergedTraces, HoldOneLossPerIteration) {
  const plan::Plan plan = make_test_plan({.stages = 1, .replicas = 2});
  std::vector<trace::Trace> parts(2);
  parts[0].records = {{"replica_loss", 1, 0, {5}, 4.0},
                      {"replica_evaluation_loss", 1, 0, {6}, 2.0},
                      {"replica_evaluation_batches", 1, 0, {6}, 2.0}};
  parts[1].records = {{"replica_loss", 1, 1, {7}, 5.0},
                      {"replica_evaluation_loss", 1, 1, {8}, 5.0},
                      {"replica_evaluation_batches", 1, 1, {8}, 1.0}};
  const trace::Trace merged = merge_parts(plan, std::move(parts), "", "");
  std::map<std::string, std::vector<trace::Record>> found;
  for (const trace::Record& record : merged.records) found[record.name].push_back(record);
  EXPECT_THAT(found["loss"], ::testing::ElementsAre(trace::Record{"loss", 1, 0, {7}, 4.5}));
  EXPECT_THAT(found["evaluation_loss"],
              ::testing::ElementsAre(trace::Record{"evaluation_loss", 1, 0, {8}, 3.0}));
  EXPECT_EQ(found["replica_loss"].size(), 2u);
  EXPECT_EQ(merged.header.ranks[1].replica, 1);
}

TEST(MergedTraces, SayWhereTheyComeFrom) {
  const plan::Plan plan = with_tokens(make_test_plan({.stages = 2}), 1);
  std::vector<trace::Trace> parts(2);
  parts[1].intervals.push_back({.rank = 1, .iteration = 1, .start = {kMs}, .end = {2 * kMs}});
  parts[0].intervals.push_back({.rank = 0, .iteration = 1, .start = {0}, .end = {kMs}});
  const trace::Trace merged = merge_parts(plan, std::move(parts), "tombolo train x", "0.1.0");
  EXPECT_EQ(merged.header.provenance, trace::Provenance::kEmulated);
  EXPECT_EQ(merged.header.plan_digest, plan::plan_digest(plan));
  EXPECT_EQ(merged.header.ranks[1].datacenter, "paris");
  EXPECT_EQ(merged.intervals[0].rank, 0) << "in the order of time";
  ASSERT_EQ(merged.records.size(), 1u);
  EXPECT_EQ(merged.records[0].name, "tokens_per_s");
  EXPECT_DOUBLE_EQ(merged.records[0].value, 2 / 0.002);  // two samples in 2 ms

  plan::Plan real = plan;
  for (auto& datacenter : real.cluster.datacenters) {
    datacenter.device.kind = cluster::DeviceKind::kCpu;
  }
  EXPECT_EQ(merge_parts(real, std::vector<trace::Trace>(2), "", "").header.provenance,
            trace::Provenance::kMeasured);
}

TEST(RunBookDeathTest, CallersKnowTheRanks) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  ProgressTracker book(plan, 1);
  EXPECT_DEATH(ProgressTracker(plan, 0), "a run begins with iteration 0");
  EXPECT_DEATH(static_cast<void>(book.add(2, report(1, 0, 10))), "a report of rank 2 of 2");
  EXPECT_DEATH(book.add_evaluation(-1, {}), "a report of rank -1 of 2");
  EXPECT_DEATH(merge_parts(plan, {}, "", ""), "0 parts of a Trace of 2 ranks");
}

}  // namespace
}  // namespace tombolo::observe
