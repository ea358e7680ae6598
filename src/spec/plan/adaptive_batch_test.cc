#include "spec/plan/adaptive_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/plan/job.h"
#include "spec/plan/plan_file.h"
#include "support/job_texts.h"

namespace tombolo::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<Plan> adaptive(const std::string& more = "", const std::string& parallelism = "") {
  const auto job = parse_job(fmt::format(R"(
[model]
layers = 4
hidden = 64
heads = 4
vocabulary = 256
sequence = 64
[[cluster.datacenter]]
name = "lab"
device = "emulated:a100-80g"
nodes = 8
[training]
global_batch = 16
precision = "fp32"
[parallelism]
pipeline = 2
data = 2
adaptive_batch = true
{}
[stage_times]
forward = "1 ms"
backward = "2 ms"
{})",
                                         parallelism, more),
                             "job.toml");
  if (!job) return fail(job.error());
  Plan plan = TRY(lay_out(*job));
  TRY(validate(plan));
  return plan;
}

std::string why_it_stays(const std::string& more, const std::string& parallelism = "") {
  const auto plan = adaptive(more, parallelism);
  return plan ? "" : plan.error().text();
}

TEST(AdaptiveBatch, IsInThePlanAndReadBack) {
  const auto plan = adaptive();
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_TRUE(plan->batch_changes());
  EXPECT_THAT(microbatches_of_all(*plan), ElementsAre(8, 8));
  const auto again = from_value(to_value(*plan), "plan.json");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(*again, *plan);
  EXPECT_THAT(notes_on_adaptive_batch(*plan)[0], HasSubstr("count 8,8 microbatches"));
}

// So a program that does not know the key takes every other Plan.
TEST(AdaptiveBatch, IsNamedOnlyWhereItIsAskedFor) {
  Plan plan = *adaptive();
  const auto has_key = [](const Plan& of) {
    return to_value(of).find("parallelism")->find("adaptive_batch") != nullptr;
  };
  EXPECT_TRUE(has_key(plan));
  plan.parallelism.adaptive_batch = false;
  EXPECT_FALSE(has_key(plan));
}

TEST(AdaptiveBatch, RefusesWhatNeedsTheNumbersToStay) {
  EXPECT_EQ(why_it_stays("", "schedule = \"zb-h1\""), "");
  for (const char* schedule : {"gpipe", "varuna", "atlas"})
    EXPECT_THAT(why_it_stays("", fmt::format("schedule = \"{}\"", schedule)),
                HasSubstr(fmt::format("schedule = \"{}\"", schedule)));
  for (const char* schedule : {"interleaved", "zb-v", "w", "dualpipev"}) {
    const std::string text =
        why_it_stays("", fmt::format("schedule = \"{}\"\nvirtual_stages = 2", schedule));
    EXPECT_THAT(text, HasSubstr("parallelism.adaptive_batch = true and schedule"));
    EXPECT_THAT(text, HasSubstr("\"1f1b\" or \"zb-h1\""));
  }
  EXPECT_THAT(why_it_stays("", "sharing = \"temporal\""), HasSubstr("sharing = \"temporal\""));
  EXPECT_THAT(why_it_stays("", "microbatches_per_replica = [15, 1]"),
              HasSubstr("pipeline 1 begins with 1 microbatch, and would need more memory"));
  EXPECT_THAT(why_it_stays("[exchange]\nmode = \"local\"\n"), HasSubstr("mode = \"local\""));
}

TEST(AdaptiveBatch, OfOnePipelineHasNoEffect) {
  Plan plan = *adaptive();
  plan.parallelism.data = 1;
  EXPECT_FALSE(plan.batch_changes());
  EXPECT_THAT(notes_on_adaptive_batch(plan)[0], HasSubstr("has no effect"));
  plan.parallelism.adaptive_batch = false;
  EXPECT_THAT(notes_on_adaptive_batch(plan), IsEmpty());
}

TEST(AdaptiveBatch, OtherNumbersAreTheSameBatch) {
  const Plan plan = *adaptive();
  EXPECT_THAT(with_microbatches(plan, {5, 11})->parallelism.microbatches_per_replica,
              ElementsAre(5, 11));
  for (const std::vector<int64_t>& wrong :
       {std::vector<int64_t>{8, 9}, {16}, {16, 0}, {17, -1}, {15, 1}, {5, 5, 6}, {}}) {
    EXPECT_FALSE(with_microbatches(plan, wrong)) << to_text(wrong);
  }
  Plan fixed = plan;
  fixed.parallelism.adaptive_batch = false;
  EXPECT_THAT(with_microbatches(fixed, {5, 11}).error().text(), HasSubstr("lets nothing change"));
}

}  // namespace
}  // namespace tombolo::plan
