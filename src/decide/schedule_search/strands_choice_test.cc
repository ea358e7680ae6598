// [parallelism] strands = true: pairs where they are predicted to gain, a reason where not.
#include "decide/schedule_search/strands_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "spec/plan/plan_file.h"
#include "support/folder_test.h"

namespace tombolo::schedule_search {
namespace {

using ::testing::HasSubstr;

// 32 layers on 64 A40, of which half of the time is communication inside of layers.
std::string job_text(const std::string& parallelism, const std::string& more = "") {
  return "name = \"j\"\n[model]\npreset = \"llama3-70b\"\nlayers = 32\nkv_heads = 64\n"
         "vocabulary = 32000\n[[cluster.datacenter]]\nname = \"lab\"\ndevice = \"a40-48g\"\n"
         "nodes = 8\ndevices_per_node = 8\nscale_up = { domain = 8, bandwidth = \"32 GBps\" }\n"
         "scale_out = { bandwidth = \"12.5 Gbps\" }\n[training]\nglobal_batch = 32\n"
         "micro_batch = 1\nprecision = \"bf16\"\nstack = \"megatron\"\n" +
         more + "[parallelism]\nstrands = true\n" + parallelism;
}

plan::Job job_of(const std::string& parallelism, const std::string& more = "") {
  return *plan::parse_job(job_text(parallelism, more), "job.toml");
}

constexpr const char* kTensor8 = "tensor = 8\ndata = 2\npipeline = 4\nsequence_parallel = true\n";

TEST(StrandsChoice, FoldsTheModelWhereThatIsPredictedToGain) {
  const plan::Job job = job_of(kTensor8);
  ASSERT_TRUE(job.parallelism.strands);
  const Result<StrandsChoice> choice = choose_strands(job);
  ASSERT_TRUE(choice) << choice.error().text();
  EXPECT_FALSE(choice->plan.pairs.empty());
  EXPECT_TRUE(traits_of(choice->plan.parallelism.schedule).has(layout::kPairs));
  EXPECT_EQ(choice->plan.stages.size(), 8u);
  EXPECT_THAT(choice->line, HasSubstr("strands: on: schedule dualpipev"));
  // In the order of the strands that were planned: each operator of a layer once.
  const std::vector<std::string>& order = choice->plan.pairs.front().order;
  EXPECT_EQ(order.size(), 14u + 18);
  EXPECT_THAT(order, testing::IsSupersetOf({"LN1", "RS1", "bAG2", "FC2w"}));
  EXPECT_EQ(choice->plan.pairs.back().order, order);
  // What it says is what is simulated, and less than without.
  const SimDuration with = *sim::iteration_time(choice->plan);
  const SimDuration without = *sim::iteration_time(*cost::make_plan(job));
  EXPECT_LT(with, without);
  EXPECT_THAT(choice->line, HasSubstr(brief(seconds(with)) + " predicted; " +
                                      brief(seconds(without)) + " with schedule 1f1b without"));
  // A Plan has the answer and not the question.
  EXPECT_FALSE(choice->plan.parallelism.strands);
  EXPECT_EQ(*plan::parse_plan(plan::to_json_text(choice->plan), "plan.json"), choice->plan);
}

// Nothing is known of overlap on CPUs but what was measured.
class StrandsOfCpus : public FolderTest {};

TEST_F(StrandsOfCpus, NeedAProfile) {
  const std::string forward = "LN1 AG1 QKV FA PROJ RS1 BDA1 LN2 AG2 FC1 ACT FC2 RS2 BDA2",
                    backward =
                        "bBDA2 bAG2 FC2d FC2w bACT FC1d FC1w bRS2 bLN2 bBDA1 bAG1 PROJd PROJw bFA "
                        "QKVd QKVw bRS1 bLN1";
  std::string csv =
      "first,second,first_us,second_us,first_beside_us,second_beside_us,repeats,spread\n";
  std::istringstream names(forward + " " + backward);
  for (std::string name; names >> name;) {
    const bool sends = name.find("AG") != name.npos || name.find("RS") != name.npos;
    csv += fmt::format("{},,{},,,,20,0.01\n", name, sends ? 2000 : 1000);
  }
  for (const char* const kind : {"product", "elementwise", "attention", "attention-backward"})
    csv += fmt::format("{},local,1000,1000,1010,1010,20,0.01\n", kind);
  const std::string file = at("overlap.csv");
  ASSERT_TRUE(write_file(file, csv));
  const auto of_cpus = [&](const std::string& more) {
    std::string text = job_text(
        "tensor = 2\ndata = 1\npipeline = 2\nsequence_parallel = true\nvirtual_stages = 2\n"
        "schedule = \"w\"\n" +
        more);
    const auto replace = [&](const std::string& old, const std::string& by) {
      text.replace(text.find(old), old.size(), by);
    };
    replace("a40-48g", "cpu");
    replace("megatron", "tombolo");
    replace("preset = \"llama3-70b\"\nlayers = 32\nkv_heads = 64\nvocabulary = 32000\n",
            "hidden = 64\nffn = 128\nlayers = 8\nheads = 4\nvocabulary = 256\nsequence = 64\n");
    replace("bf16", "fp32");
    return *plan::parse_job(text, "job.toml");
  };
  const plan::Job without = of_cpus("");
  const Result<StrandsChoice> off = choose_strands(without);
  ASSERT_TRUE(off) << off.error().text();
  EXPECT_THAT(off->line, HasSubstr("strands_profile has"));
  const Result<StrandsChoice> on =
      choose_strands(of_cpus(fmt::format("strands_profile = \"{}\"\n", file)));
  ASSERT_TRUE(on) << on.error().text();
  EXPECT_THAT(on->line, HasSubstr("strands: on: schedule w"));
  ASSERT_FALSE(on->plan.pairs.empty());
  EXPECT_EQ(on->plan.pairs.front().order.size(), 32u);
  EXPECT_TRUE(on->plan.parallelism.strands_profile.empty());
}

TEST(StrandsChoice, TellsOfLayersThatItCannotKeep) {
  const std::string layers = "layers_per_stage = [9, 8, 8, 7]\n";
  const Result<StrandsChoice> choice = choose_strands(job_of(kTensor8 + layers));
  ASSERT_TRUE(choice) << choice.error().text();
  EXPECT_FALSE(choice->plan.pairs.empty());
  EXPECT_THAT(choice->line, HasSubstr("layers_per_stage"));
}

TEST(StrandsChoice, KeepsAScheduleThatHasPairs) {
  const Result<StrandsChoice> choice =
      choose_strands(job_of(std::string(kTensor8) + "schedule = \"w\"\nvirtual_stages = 2\n"));
  ASSERT_TRUE(choice) << choice.error().text();
  EXPECT_EQ(choice->plan.schedule_name(), "w");
  EXPECT_FALSE(choice->plan.pairs.empty());
}

TEST(StrandsChoice, IsOffWithAReasonAndThenThePlanIsThatOfTheJob) {
  // No communication inside of layers; links within nodes so fast that waiting for both of a pair
  // costs more than it hides.
  const std::string fast = "32 GBps", slow = job_text(kTensor8);
  std::string text = slow;
  text.replace(text.find(fast), fast.size(), "32000 GBps");
  const std::pair<plan::Job, const char*> cases[] = {
      {job_of("tensor = 1\ndata = 2\npipeline = 32\n"), "no layer communicates"},
      {*plan::parse_job(text, "job.toml"), "with its pairs and"}};
  for (const auto& [job, reason] : cases) {
    const Result<StrandsChoice> choice = choose_strands(job);
    ASSERT_TRUE(choice) << choice.error().text();
    EXPECT_THAT(choice->line, HasSubstr("strands: off: "));
    EXPECT_THAT(choice->line, HasSubstr(reason));
    EXPECT_EQ(choice->plan, *cost::make_plan(job));
  }
}

TEST(StrandsChoice, RefusesTimesOfWholeStages) {
  const plan::Job job =
      job_of(kTensor8, "[stage_times]\nforward = \"1 ms\"\nbackward = \"2 ms\"\n");
  const Result<StrandsChoice> choice = choose_strands(job);
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().code, ErrorCode::kUnusable);
  EXPECT_THAT(choice.error().text(), HasSubstr("[stage_times] pair"));
}

}  // namespace
}  // namespace tombolo::schedule_search
