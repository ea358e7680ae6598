#include "spec/plan/prefill_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/plan/job.h"
#include "spec/plan/plan_file.h"

namespace tombolo::plan {
namespace {

using ::testing::HasSubstr;

std::string prefill_job(const std::string& prefill) {
  return R"([model]
preset = "gpt2"
[[cluster.datacenter]]
name = "oregon"
device = "a100-80g"
nodes = 2
[training]
global_batch = 4
[parallelism]
pipeline = 2
)" + prefill;
}

TEST(PrefillSettings, NameAPresetOrAModelInline) {
  const Result<Job> named = parse_job(
      prefill_job("[prefill]\nmodel = \"llama3-8b\"\nmemory = \"2 GB\"\ndepth = 8\n"), "job.toml");
  ASSERT_TRUE(named) << named.error().text();
  EXPECT_EQ(named->prefill->model, *model::preset("llama3-8b"));
  EXPECT_EQ(named->prefill->memory, 2_GB);
  EXPECT_EQ(named->prefill->depth, 8);

  const Result<Job> inlined =
      parse_job(prefill_job("[prefill]\nmemory = \"2 GB\"\n[prefill.model]\npreset = "
                            "\"llama3-8b\"\nsequence = 4096\n"),
                "job.toml");
  ASSERT_TRUE(inlined) << inlined.error().text();
  EXPECT_EQ(inlined->prefill->model.sequence, 4096);
}

TEST(PrefillSettings, StandInPlansAndInJobsThatAreWritten) {
  const Job job =
      *parse_job(prefill_job("[prefill]\nmodel = \"llama3-8b\"\nmemory = \"2 GB\"\n"), "job.toml");
  const Plan plan = *lay_out(job);
  EXPECT_EQ(plan.prefill, job.prefill);
  const Result<Plan> again = parse_plan(to_json_text(plan), "plan.json");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->prefill, job.prefill);
  const Result<Job> written = parse_job(to_toml_text(job, "again.toml", ""), "again.toml");
  ASSERT_TRUE(written) << written.error().text();
  EXPECT_EQ(written->prefill, job.prefill);
}

TEST(PrefillSettings, SayWhatIsWrongAndWhere) {
  const auto text_of = [](const std::string& prefill) {
    const Result<Job> job = parse_job(prefill_job(prefill), "job.toml");
    return job ? std::string("no error") : job.error().text();
  };
  EXPECT_THAT(text_of("[prefill]\nmodel = \"llama9\"\nmemory = \"2 GB\"\n"),
              HasSubstr("job.toml:12: prefill.model"));
  EXPECT_THAT(text_of("[prefill]\nmodel = 3\nmemory = \"2 GB\"\n"), HasSubstr("a text or a table"));
  EXPECT_THAT(text_of("[prefill]\nmodel = \"llama3-8b\"\n"), HasSubstr("prefill.memory"));
  EXPECT_THAT(text_of("[prefill]\nmodel = \"llama3-8b\"\nmemory = \"2 GB\"\ndepth = 0\n"),
              HasSubstr("between 1 and 1000"));
  EXPECT_THAT(text_of("[prefill]\nmodel = \"llama3-8b\"\nmemory = \"2 GB\"\nttft = \"1 s\"\n"),
              HasSubstr("ttft_max"));
}

}  // namespace
}  // namespace tombolo::plan
