#include "spec/plan/job_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "spec/plan/job.h"
#include "spec/plan/open_job.h"
#include "spec/plan/plan_file.h"
#include "support/job_texts.h"

namespace tombolo::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kImagined = R"(
[cluster]
[[cluster.datacenter]]
name = "a"
device = "emulated:a100-80g"
[[cluster.datacenter]]
name = "b"
device = "emulated:a100-80g"
[[cluster.wan]]
between = ["a", "b"]
one_way_latency = "1 ms"
node_pair_limit = "1 Gbps"
[training]
global_batch = 4
[parallelism]
pipeline = 2
[stage_times]
forward = ["2 ms", "3 ms"]
backward = "4 ms"
backward_weight = "1 ms"
recompute = "2 ms"
reduce = "5 ms"
transfer = "7 ms"
latency = "1 ms"
in_flight = 3
)";

constexpr const char* kUnlike = R"(
[model]
preset = "byte-3m"
[[cluster.datacenter]]
name = "a"
device = "a100-80g"
nodes = 2
devices_per_node = 4
[[cluster.datacenter]]
name = "b"
device = "h100-80g"
devices_per_node = 2
[[cluster.wan]]
between = ["a", "b"]
one_way_latency = "1 ms"
node_pair_limit = "1 Gbps"
[training]
global_batch = 4
[parallelism]
pipeline = 2
tensor_per_stage = [2, 4]
datacenter_per_stage = ["b", "a"]
)";

// Laid out again, the job that a Plan says is that Plan.
TEST(JobValue, APlanSaysTheJobItWasMadeFrom) {
  std::string gpt = test::kGptOn64;
  gpt.replace(gpt.find("pipeline = 8\n"), 13, "pipeline = 8\nschedule = \"interleaved\"\n");
  for (const std::string& text :
       {std::string(test::kTwoCpus), std::string(test::kReplicated), gpt, std::string(kUnlike),
        std::string(kImagined), std::string(test::kApart)}) {
    SCOPED_TRACE(text);
    const Result<Job> job = parse_job(text, "folder/job.toml");
    ASSERT_TRUE(job) << job.error().text();
    const Plan plan = *lay_out(*job);
    const Result<Job> again = parse_job(to_json_text(plan), "other/plan.json");
    ASSERT_TRUE(again) << again.error().text();
    EXPECT_EQ(again->name, job->name);
    EXPECT_EQ(again->model.has_value(), job->model.has_value());
    Plan same = *lay_out(*again);
    // Where stages lie is said by name now.
    same.parallelism.datacenter_per_stage = plan.parallelism.datacenter_per_stage;
    EXPECT_EQ(to_json_text(same), to_json_text(plan));
  }
}

TEST(JobValue, PathsLeadWhereTheyLed) {
  Job job = *parse_job(std::string(test::kTwoCpus) +
                           "[data]\ntext = \"corpus.txt\"\n[checkpoint]\ndirectory = \"/keep\"\n"
                           "every = 5\n",
                       "folder/job.toml");
  EXPECT_EQ(job.data->text, "folder/corpus.txt");
  const Job again = *parse_job(to_json_text(*lay_out(job)), "elsewhere/plan.json");
  EXPECT_EQ(again.data->text, "folder/corpus.txt");
  EXPECT_EQ(again.checkpoint->directory, "/keep");
}

TEST(JobValue, TokensAreSaidAndComeBackAsTheyWere) {
  const auto job = parse_job(std::string(test::kTwoCpus) +
                                 "[data]\ntokens = [\"a.bin\", \"/keep/b.bin\"]\n"
                                 "format = \"nanogpt\"\ndtype = \"uint32\"\nshuffle = false\n"
                                 "seed = 5\nevaluation_fraction = 0.0\n",
                             "folder/job.toml");
  ASSERT_TRUE(job) << job.error().text();
  const Data said{.tokens = {"folder/a.bin", "/keep/b.bin"},
                  .format = TokenFormat::kNanogpt,
                  .dtype = TokenType::kUint32,
                  .shuffle = false,
                  .seed = 5,
                  .evaluation_fraction = 0};
  EXPECT_EQ(*job->data, said);
  const std::string json = to_json_text(*lay_out(*job));
  EXPECT_EQ(*parse_job(json, "elsewhere/plan.json")->data, said);
  EXPECT_EQ(*parse_job(to_toml_text(*job, "other/job.toml", ""), "other/job.toml")->data, said);
  // Of a text the Plan says what it always said.
  const Job text = *parse_job(std::string(test::kTwoCpus) + "[data]\ntext = \"a\"\n", "job.toml");
  EXPECT_THAT(to_json_text(*lay_out(text)), HasSubstr(R"("data": {
    "text": "a",
    "evaluation_fraction": 0.1
  })"));
}

TEST(JobValue, DataIsOneTextOrTokensAndSaysWhatIsWrong) {
  const auto refused = [](const std::string& data) {
    const auto job = parse_job(std::string(test::kTwoCpus) + "[data]\n" + data + "\n", "job.toml");
    EXPECT_FALSE(job) << data;
    return job ? "" : job.error().text();
  };
  EXPECT_THAT(refused("text = \"a\"\ntokens = [\"b.bin\"]"), HasSubstr("one of text and tokens"));
  EXPECT_THAT(refused("tokens = []"), HasSubstr("wanted one or more paths"));
  EXPECT_THAT(refused("tokens = [\"\"]"), HasSubstr("wanted one or more paths"));
  EXPECT_THAT(refused("tokens = \"a.bin\""), HasSubstr("wanted a list"));
  EXPECT_THAT(refused("shuffle = true"), HasSubstr("data.text is missing"));
  EXPECT_THAT(refused("text = \"a\"\nshuffle = true"), HasSubstr("goes with tokens"));
  EXPECT_THAT(refused("text = \"a\"\nseed = 1"), HasSubstr("goes with tokens"));
  EXPECT_THAT(refused("tokens = [\"a.bin\"]\nformat = \"arrow\""),
              HasSubstr("one of megatron, nanogpt"));
}

TEST(JobValue, SharesOfDataComeBackAsTheyWere) {
  const auto job = parse_job(std::string(test::kTwoCpus) +
                                 "[data]\nseed = 5\n"
                                 "[[data.share]]\ndatacenters = [\"west\", \"east\"]\n"
                                 "tokens = [\"a.bin\", \"/keep/b.bin\"]\n"
                                 "[[data.share]]\npipelines = [1, 0]\ntokens = [\"../c.bin\"]\n",
                             "folder/job.toml");
  ASSERT_TRUE(job) << job.error().text();
  const Data said{.share = {{.tokens = {"folder/a.bin", "/keep/b.bin"},
                             .datacenters = {"west", "east"},
                             .pipelines = {}},
                            {.tokens = {"c.bin"}, .datacenters = {}, .pipelines = {1, 0}}},
                  .seed = 5};
  EXPECT_EQ(*job->data, said);
  // A Plan keeps what neither prediction nor search looks at, whichever pipelines read the shares.
  const std::string json = to_json_text(*lay_out(*job));
  EXPECT_EQ(*parse_plan(json, "elsewhere/plan.json")->data, said);
  EXPECT_EQ(*parse_job(json, "elsewhere/plan.json")->data, said);
  EXPECT_EQ(*parse_job(to_toml_text(*job, "other/job.toml", ""), "other/job.toml")->data, said);
}

TEST(JobValue, SharesOfDataSayWhatIsWrong) {
  const auto refused = [](const std::string& data) {
    const auto job = parse_job(std::string(test::kTwoCpus) + "[data]\n" + data + "\n", "job.toml");
    EXPECT_FALSE(job) << data;
    return job ? "" : job.error().text();
  };
  const auto share = [](const std::string& said, const std::string& tokens = "[\"a.bin\"]") {
    return fmt::format("[[data.share]]\ntokens = {}\n{}\n", tokens, said);
  };
  const std::string west = share("datacenters = [\"west\"]");
  EXPECT_THAT(refused("tokens = [\"b.bin\"]\n" + west),
              HasSubstr("cannot be combined with tokens"));
  EXPECT_THAT(refused("text = \"b\"\n" + west), HasSubstr("cannot be combined with a text"));
  EXPECT_THAT(refused("share = []"), HasSubstr("is an empty list"));
  EXPECT_THAT(refused("[[data.share]]\ndatacenters = [\"west\"]"),
              HasSubstr("data.share[0].tokens is missing"));
  EXPECT_THAT(refused(share("datacenters = [\"west\"]", "[]")),
              HasSubstr("data.share[0].tokens = []: wanted one or more paths"));
  EXPECT_THAT(refused(share("datacenters = [\"west\"]", "[\"\"]")),
              HasSubstr("wanted one or more paths"));
  EXPECT_THAT(refused(share("")), HasSubstr("no rank would read these files"));
  EXPECT_THAT(refused(share("datacenter = \"west\"")), HasSubstr("datacenters"));
  EXPECT_THAT(refused(share("datacenters = [\"west\", \"west\"]")),
              HasSubstr("names a datacenter twice"));
  EXPECT_THAT(refused(west + share("datacenters = [\"east\", \"west\"]")),
              HasSubstr("\"west\" stands in two shares"));
  EXPECT_THAT(refused(share("pipelines = [1, 1]")), HasSubstr("names a pipeline twice"));
  EXPECT_THAT(refused(share("pipelines = [-1]")), HasSubstr("wanted numbers from 0"));
  EXPECT_THAT(refused(share("pipelines = [0, 1]") + share("pipelines = [1]")),
              HasSubstr("pipeline 1 stands in two shares"));
  const std::string unknown = refused(west + share("datacenters = [\"eats\"]"));
  EXPECT_THAT(unknown, HasSubstr("job.toml: data.share[1].datacenters: there is no datacenter "
                                 "\"eats\""));
  EXPECT_THAT(unknown, HasSubstr("try \"east\""));
  EXPECT_THAT(refused(share("datacenters = [\"oslo\"]")), HasSubstr("try one of west, east"));
}

TEST(JobValue, MeasuredTimesAreGivenTimes) {
  Plan plan = *lay_out(*parse_job(test::kTwoCpus, "job.toml"));
  plan.cost_source = CostSource::kProfile;
  for (Stage& stage : plan.stages) stage.cost = {.forward = 1_ms, .backward = 2_ms};
  plan.stages[0].cost.backward = 3_ms;
  plan.measured_links = {{{"east", "west"}, 21_ms, 100_MBps}};
  const Job job = *parse_job(to_json_text(plan), "plan.json");
  ASSERT_TRUE(job.stage_times);
  EXPECT_THAT(job.stage_times->forward, ElementsAre(1_ms));
  EXPECT_THAT(job.stage_times->backward, ElementsAre(3_ms, 2_ms));
  EXPECT_THAT(job.notes, ElementsAre(HasSubstr("measured_links")));
  plan.stages[1].cost.update = 1_ms;
  EXPECT_THAT(parse_job(to_json_text(plan), "plan.json")->notes,
              ElementsAre(HasSubstr("steps of the optimizer"), HasSubstr("measured_links")));
  // Times that a law said are left to the law.
  plan.cost_source = CostSource::kTombolo;
  plan.constants = "of another version";
  const Job by_law = *parse_job(to_json_text(plan), "plan.json");
  EXPECT_FALSE(by_law.stage_times);
  EXPECT_EQ(by_law.constants, "of another version");
}

TEST(PlanFile, HasNoModelWhereTheJobHasNone) {
  const Plan plan = *lay_out(*parse_job(kImagined, "job.toml"));
  EXPECT_FALSE(plan.has_model());
  const Value file = to_value(plan);
  EXPECT_FALSE(file.find("model"));
  EXPECT_EQ(*from_value(file, "plan.json"), plan);
  // Earlier versions wrote one of a single number a layer.
  Value older = file;
  model::Model one{.name = "stage-times", .layers = 2};
  one.hidden = one.heads = one.kv_heads = one.ffn = one.vocabulary = one.sequence = 1;
  older.get<Value::Table>()->emplace_back("model", write_fields(one));
  EXPECT_EQ(*from_value(older, "plan.json"), plan);
  Plan other = plan;
  other.boundary = 8_B;
  EXPECT_THAT(from_value(to_value(other), "plan.json").error().text(),
              ::testing::HasSubstr("only a model says what stages send"));
}

TEST(JobValue, ASettingHasNothingOfWhatWasDecided) {
  const Plan plan = *lay_out(*parse_job(kUnlike, "job.toml"));
  const JobValue value = *parse_job_value(to_json_text(plan), "plan.json");
  EXPECT_TRUE(value.from_plan);
  const Value setting = setting_of(value);
  EXPECT_TRUE(setting.find("model") && setting.find("cluster") && setting.find("training"));
  EXPECT_EQ(setting.find("parallelism"), nullptr);
  const OpenJob open = *open_job_from_value(setting, "plan.json");
  EXPECT_FALSE(open.fixed.tensor || open.fixed.pipeline);
  EXPECT_EQ(open.fixed.micro_batch, 1);
  // Without a model there is nothing to decide from again; and people's jobs are left alone.
  const Plan imagined = *lay_out(*parse_job(kImagined, "job.toml"));
  EXPECT_TRUE(setting_of(*parse_job_value(to_json_text(imagined), "p.json")).find("parallelism"));
  EXPECT_TRUE(setting_of(*parse_job_value(kUnlike, "job.toml")).find("parallelism"));
}

TEST(JobValue, SaysWhatAJobCannotSay) {
  Plan plan = *lay_out(*parse_job(test::kReplicated, "job.toml"));
  plan.given = GivenSchedule{.name = "atlas, 6 in flight", .ranks = {}, .links = {}, .release = {}};
  const JobValue value = *to_job_value(plan, "plan.json");
  EXPECT_TRUE(value.given_schedule);
  EXPECT_THAT(value.notes, ElementsAre(HasSubstr("given = \"atlas, 6 in flight\"")));
  // The replicas of the first stage change places.
  std::swap(plan.ranks[0].node, plan.ranks[1].node);
  const auto moved = parse_job_value(to_json_text(plan), "plan.json");
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().exit_code(), 2);
  EXPECT_THAT(moved.error().text(), HasSubstr("plan.json: ranks[0] has 1 device(s) from node 1"));
  EXPECT_THAT(moved.error().text(), HasSubstr("try tombolo simulate"));
}

TEST(JobValue, OtherJsonIsRefusedByName) {
  EXPECT_TRUE(is_plan(" \n{}"));
  EXPECT_TRUE(is_plan("\xef\xbb\xbf{}"));
  EXPECT_FALSE(is_plan("[model]"));
  EXPECT_FALSE(is_plan(""));
  EXPECT_THAT(parse_job("{\"tombolo_hardware\": 1}", "hw.json").error().text(),
              HasSubstr("hw.json: this is JSON, and no Plan"));
}

}  // namespace
}  // namespace tombolo::plan
