#include "runtime/run_book.h"

#include <gtest/gtest.h>

#include "plan/plan_file.h"
#include "runtime/test_plan.h"

namespace tombolo::runtime {
namespace {

constexpr int64_t kMs = 1'000'000;

IterationReport report(int64_t iteration, int64_t start_ms, int64_t end_ms,
                       std::optional<double> loss = {}) {
  return {iteration, {start_ms * kMs}, {end_ms * kMs}, loss};
}

TEST(RunBook, AnIterationIsOverWhenTheLastRankIs) {
  RunBook book(make_test_plan({.stages = 2, .microbatches = 2, .steps = 10}), 1);
  // Rank 1 is through with iteration 1 at 90 ms, rank 0, which began at 0, at 100 ms.
  EXPECT_FALSE(book.add(report(1, 10, 90, 5.0)));
  EXPECT_EQ(book.steps_done(), 0);
  const auto progress = book.add(report(1, 0, 100));
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->step, 1);
  EXPECT_EQ(progress->loss, 5.0);
  EXPECT_DOUBLE_EQ(progress->iteration.value, 0.1);
  EXPECT_DOUBLE_EQ(progress->tokens_per_s, 2 / 0.1);  // two samples of one token
  EXPECT_DOUBLE_EQ(progress->remaining.value, 9 * 0.1);
}

TEST(RunBook, TheMedianLeavesTheFirstIterationOut) {
  RunBook book(make_test_plan({.stages = 1, .steps = 4}), 1);
  book.add(report(1, 0, 500, 5.0));
  book.add(report(2, 500, 510, 4.0));
  book.add(report(3, 510, 530, 3.0));
  book.add(report(4, 530, 560, 2.0));
  const RunSummary summary = book.summary();
  EXPECT_DOUBLE_EQ(summary.iteration.value, 0.02);  // of 10, 20 and 30 ms
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(summary.first_loss, 5.0);
  EXPECT_EQ(summary.final_loss, 2.0);
  EXPECT_DOUBLE_EQ(summary.tokens_per_s, 2 / 0.02);
}

TEST(RunBook, AfterAResumeStepsGoOnCounting) {
  RunBook book(make_test_plan({.stages = 1, .steps = 4}), 3);
  EXPECT_EQ(book.steps_done(), 2);
  EXPECT_DOUBLE_EQ(book.add(report(3, 0, 10))->remaining.value, 0.01);
}

TEST(MergedTraces, SayWhereTheyComeFrom) {
  const plan::Plan plan = make_test_plan({.stages = 2});
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
  EXPECT_EQ(merge_parts(real, {}, "", "").header.provenance, trace::Provenance::kMeasured);
}

}  // namespace
}  // namespace tombolo::runtime
