#include "predict/cost/price_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/job_texts.h"

namespace tombolo::cost {
namespace {

using ::testing::HasSubstr;

TEST(PricePlan, TheLawIsRoofline) {
  const plan::Plan plan = *make_plan(*plan::parse_job(test::kTwoCpus, "job.toml"));
  EXPECT_EQ(plan.cost_source, plan::CostSource::kRoofline);
  for (const plan::Stage& stage : plan.stages) EXPECT_GT(stage.cost.forward, 0_s);
}

// A ring of two: two steps of half the gradients. Over the network in "a", inside a node in "b".
TEST(PricePlan, TheSlowestHopOfTheRingDecides) {
  const plan::Plan plan = *make_plan(*plan::parse_job(test::kReplicated, "job.toml"));
  EXPECT_DOUBLE_EQ(plan.stages[0].cost.reduce.value,
                   2 * (1e-3 + plan.stages[0].gradients.value / 2 / 1e9));
  EXPECT_DOUBLE_EQ(plan.stages[1].cost.reduce.value,
                   2 * (2e-6 + plan.stages[1].gradients.value / 2 / 1e10));
}

TEST(PricePlan, MeasurementsReplaceTheLaw) {
  const plan::Job job = *plan::parse_job(test::kTwoCpus, "job.toml");
  plan::Hardware hardware;
  hardware.model = *job.model;
  hardware.micro_batch = 2;
  hardware.precision = "fp32";
  hardware.stages = {{{0, 2, true, false}, "cpu", {1_ms, 2_ms, 0_s, 3_ms}},
                     {{2, 2, false, true}, "cpu", {4_ms, 5_ms, 0_s, 6_ms}}};
  hardware.links = {{{"east", "west"}, 21_ms, 100_MBps}};
  const plan::Plan plan = *make_plan(job, &hardware);
  EXPECT_EQ(plan.cost_source, plan::CostSource::kProfile);
  EXPECT_EQ(plan.stages[1].cost.backward, 5_ms);
  EXPECT_EQ(plan::expected_channel(plan, 0, 1).latency, 21_ms);
  EXPECT_EQ(plan::channel_between(plan, 0, 1).latency, 20_ms);  // what the runtime emulates

  hardware.micro_batch = 4;
  const Result<plan::Plan> other = make_plan(job, &hardware);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().text(), HasSubstr("measured for another micro_batch (4)"));
  EXPECT_THAT(other.error().text(), HasSubstr("tombolo profile job.toml"));
}

}  // namespace
}  // namespace tombolo::cost
