#include "predict/cost/worth.h"

#include <gtest/gtest.h>

#include "predict/cost/price_plan.h"
#include "spec/plan/job.h"
#include "support/job_texts.h"

namespace tombolo::cost {
namespace {

TEST(Worth, IsWhatAnIterationProcessesAndCosts) {
  const plan::Plan plan = *make_plan(*plan::parse_job(test::kTwoCpus, "job.toml"));
  const Worth worth = worth_of(plan, 2_s);
  const double tokens = real(plan.training.global_batch * plan.model.sequence);
  EXPECT_DOUBLE_EQ(*worth.tokens_per_s, tokens / 2);
  EXPECT_EQ(worth.mfu, mfu_of(plan, 2_s));
  EXPECT_EQ(worth.cost.total(), worth.ledger.cost(2_s).total());
  EXPECT_FALSE(worth_of(plan, 0_s).tokens_per_s);
}

TEST(Worth, ThePeakIsOfTheRankThatNeedsMost) {
  const plan::Plan plan = *make_plan(*plan::parse_job(test::kTwoCpus, "job.toml"));
  ASSERT_EQ(plan.ranks.size(), 2u);
  const MemoryPeak peak = memory_peak(plan, std::vector{1_GB, 3_GB});
  EXPECT_EQ(peak.bytes, 3_GB);
  EXPECT_EQ(peak.rank, 1);
  EXPECT_EQ(peak.capacity, plan.device_of(1).memory);
}

}  // namespace
}  // namespace tombolo::cost
