#include "spec/plan/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/plan/plan_file.h"
#include "support/job_texts.h"

namespace tombolo::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<Plan> plan_of(const std::string& text) {
  const Result<Job> job = parse_job(text, "job.toml");
  if (!job) return fail(job.error());
  return lay_out(*job);
}

// test::kTwoCpus with one piece replaced: exit code and message.
Error complaint(const std::string& from, const std::string& to) {
  std::string text = test::kTwoCpus;
  text.replace(text.find(from), from.size(), to);
  const Result<Plan> plan = plan_of(text);
  return plan ? Error{} : plan.error();
}

// Stages per datacenter, of datacenters with these numbers of devices, all pairs linked.
std::vector<int64_t> placed(int64_t stages, const std::vector<int64_t>& devices) {
  Job job = *parse_job(test::kTwoCpus, "job.toml");
  job.model->layers = stages;
  job.parallelism.pipeline = stages;
  const cluster::Datacenter datacenter = job.cluster.datacenters[0];
  const cluster::WanLink wan = job.cluster.wan[0];
  job.cluster = {};
  for (size_t i = 0; i < devices.size(); ++i) {
    job.cluster.datacenters.push_back(datacenter);
    job.cluster.datacenters.back().name = std::to_string(i);
    job.cluster.datacenters.back().nodes = devices[i];
    for (size_t j = 0; j < i; ++j) {
      job.cluster.wan.push_back(wan);
      job.cluster.wan.back().between = {std::to_string(j), std::to_string(i)};
    }
  }
  std::vector<int64_t> counts(devices.size(), 0);
  const Plan plan = *lay_out(job);
  for (const layout::Placement& placement : plan.ranks) ++counts[std::stoul(placement.datacenter)];
  return counts;
}

TEST(LayOut, SharesStagesEvenlyAsFarAsDevicesGo) {
  EXPECT_THAT(placed(2, {1, 1}), ElementsAre(1, 1));
  EXPECT_THAT(placed(6, {8, 8, 8}), ElementsAre(2, 2, 2));
  EXPECT_THAT(placed(6, {1, 8, 1}), ElementsAre(1, 4, 1));
  EXPECT_THAT(placed(5, {4, 1}), ElementsAre(4, 1));
  EXPECT_THAT(placed(1, {4, 4}), ElementsAre(1, 0));
}

TEST(LayOut, FillsNodesDeviceByDevice) {
  Job job = *parse_job(test::kTwoCpus, "job.toml");
  job.cluster.datacenters[0].devices_per_node = 2;
  job.cluster.datacenters[0].nodes = 2;
  job.parallelism.pipeline = 4;
  const Plan plan = *lay_out(job);  // 2 + 2, but east has one device
  EXPECT_EQ(plan.ranks[2], (layout::Placement{2, 2, "west", 1, 0}));
  EXPECT_EQ(plan.ranks[3], (layout::Placement{3, 3, "east", 0, 0}));
}

TEST(LayOut, SplitsLayersAsEvenlyAsPossible) {
  Job job = *parse_job(test::kTwoCpus, "job.toml");
  job.model->layers = 7;
  const Plan plan = *lay_out(job);
  EXPECT_EQ(plan.stages[0].slice, (model::Slice{0, 4, true, false}));
  EXPECT_EQ(plan.stages[1].slice, (model::Slice{4, 3, false, true}));
  EXPECT_EQ(plan.microbatches(), 4);
  EXPECT_EQ(plan.boundary.value, 2 * 256 * 256 * 4);  // microbatch x sequence x hidden x fp32

  job.parallelism.layers_per_stage = {2, 5};
  EXPECT_EQ(lay_out(job)->stages[1].slice, (model::Slice{2, 5, false, true}));
}

// Four layers in 2 x 3 chunks, as Llama 3 405B has 126 in 16 x 8: the ends stand alone.
TEST(LayOut, EmbeddingAndHeadMayHaveAChunkEach) {
  std::string text = test::kTwoCpus;
  const std::string pipeline = "pipeline = 2";
  text.replace(text.find(pipeline), pipeline.size(),
               pipeline + "\nvirtual_stages = 3\nschedule = \"interleaved\"");
  const Result<Plan> plan = plan_of(text);
  ASSERT_TRUE(plan) << plan.error().text();
  std::vector<int64_t> layers;
  for (const Stage& stage : plan->stages) layers.push_back(stage.slice.layers);
  EXPECT_THAT(layers, ElementsAre(0, 1, 1, 1, 1, 0));
  EXPECT_TRUE(plan->stages.front().slice.embedding);
  EXPECT_TRUE(plan->stages.back().slice.head);
}

TEST(LayOut, TooFewDevicesIsInfeasible) {
  const Error error = complaint("pipeline = 2", "pipeline = 3");
  EXPECT_EQ(error.exit_code(), 3);
  EXPECT_THAT(error.text(), HasSubstr("3 stages need 3 devices, the cluster has 2"));
}

TEST(LayOut, ReplicasOfAStageShareADatacenter) {
  const Plan plan = *plan_of(test::kReplicated);
  EXPECT_EQ(plan.microbatches(), 4);
  ASSERT_EQ(plan.ranks.size(), 6u);
  EXPECT_EQ(plan.ranks[1], (layout::Placement{1, 0, "a", 1, 0, 1}));
  EXPECT_EQ(plan.ranks[2], (layout::Placement{2, 1, "b", 0, 0, 0}));
  EXPECT_EQ(plan.ranks[3], (layout::Placement{3, 1, "b", 0, 1, 1}));
  EXPECT_EQ(plan.ranks[5], (layout::Placement{5, 2, "b", 1, 1, 1}));
  EXPECT_EQ(plan.rank_of(2, 1), 5);
  EXPECT_THAT(plan.replicas_of(1), ::testing::ElementsAre(2, 3));
  EXPECT_EQ(plan.stages[1].gradients,
            Bytes{2.0 * static_cast<double>(model::parameters(plan.model, plan.stages[1].slice))});
}

TEST(LayOut, SaysWhereReplicasDoNotFit) {
  std::string text = test::kReplicated;
  text.replace(text.find("pipeline = 3"), 12, "pipeline = 4");
  text.replace(text.find("layers = 3"), 10, "layers = 4");
  const Result<Plan> plan = plan_of(text);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().exit_code(), 3);
  EXPECT_THAT(plan.error().text(),
              HasSubstr("4 stages x 2 replicas do not fit: the replicas of a stage share a "
                        "datacenter; a with 3 devices has room for 1, b with 4 devices has room "
                        "for 2: 3 stages in all"));
}

TEST(LayOut, PutsWholePipelinesIntoDatacenters) {
  const Plan plan = *plan_of(test::kApart);
  ASSERT_EQ(plan.ranks.size(), 4u);
  EXPECT_EQ(plan.ranks[0], (layout::Placement{0, 0, "cloud", 0, 0, 0}));
  EXPECT_EQ(plan.ranks[1], (layout::Placement{1, 0, "lab", 0, 0, 1}));
  EXPECT_EQ(plan.ranks[2], (layout::Placement{2, 1, "cloud", 1, 0, 0}));
  EXPECT_EQ(plan.ranks[3], (layout::Placement{3, 1, "lab", 1, 0, 1}));
  EXPECT_TRUE(plan.replicas_lie_apart());
  EXPECT_FALSE(plan_of(test::kReplicated)->replicas_lie_apart());
}

TEST(LayOut, PipelinesApartSayWhatIsWrong) {
  const auto refused = [](const std::string& from, const std::string& to) {
    std::string text = test::kApart;
    text.replace(text.find(from), from.size(), to);
    const Result<Plan> plan = plan_of(text);
    return plan ? "it is accepted" : plan.error().text();
  };
  EXPECT_THAT(refused("[\"cloud\", \"lab\"]", "[\"cloud\"]"), HasSubstr("wanted 2 names"));
  EXPECT_THAT(refused("\"lab\"]\n", "\"lab\"]\ndatacenter_per_stage = [\"lab\", \"cloud\"]\n"),
              HasSubstr("and so does datacenter_per_stage"));
  EXPECT_THAT(refused("[\"cloud\", \"lab\"]", "[\"cloud\", \"barn\"]"),
              HasSubstr("datacenter_per_replica[1]: there is no datacenter \"barn\""));
  EXPECT_THAT(refused("[\"cloud\", \"lab\"]", "[\"cloud\", \"cloud\"]"),
              HasSubstr("pipeline 0 does not fit: cloud has 2 devices for 2 pipelines of 2"));
  EXPECT_EQ(refused("device = \"a100-80g\"", "device = \"h100-80g\""), "it is accepted");
  EXPECT_THAT(refused("data = 2\n", "data = 2\nzero = 2\n"), HasSubstr("parallelism.zero = 2"));
}

// The optimizer's state is shared out by those who lie together: 2 in each datacenter.
TEST(LayOut, ShardsTheOptimizerWithinEachDatacenter) {
  std::string text = test::kApart;
  const auto replace = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("pipeline = 2\ndata = 2\n", "pipeline = 1\ndata = 4\nzero = 1\n");
  replace("[\"cloud\", \"lab\"]", "[\"cloud\", \"lab\", \"cloud\", \"lab\"]");
  const Result<Plan> even = plan_of(text);
  ASSERT_TRUE(even) << even.error().text();
  EXPECT_EQ(even->replicas_that_shard(0), 2);
  EXPECT_THAT(parse_job(text, "job.toml")->notes, ::testing::IsEmpty());
  std::string alone = test::kApart;
  alone.replace(alone.find("data = 2\n"), 9, "data = 2\nzero = 1\n");
  EXPECT_THAT(parse_job(alone, "job.toml")->notes,
              ::testing::Contains(HasSubstr("zero = 1 has no effect")));
  EXPECT_THAT(plan_of(text + "[exchange]\nmode = \"sparse\"\n").error().text(),
              HasSubstr("zero = 1 with exchange.mode = \"sparse\""));
  replace("nodes = 2", "nodes = 3");
  replace("\"cloud\", \"lab\"]", "\"lab\", \"lab\"]");
  EXPECT_THAT(plan_of(text).error().text(), HasSubstr("different numbers of replicas of stage 0"));
}

// Nodes of unlike size are alike to a stage on one device, and to one on two that has a domain of two in
// both: what a file does not say of domains makes no difference.
TEST(UnlikeDatacenters, AreNotThoseWithNodesOfUnlikeSize) {
  const auto unlike = [](const std::string& lab, const std::string& cloud, int tensor) {
    std::string text = test::kApart;
    text.insert(text.find("nodes = 2\n[[cluster.wan]]"), cloud);
    text.insert(text.find("nodes = 2\n"), lab);
    text.insert(text.find("pipeline = 2"), fmt::format("tensor = {}\n", tensor));
    return unlike_datacenters(*plan_of(text), 0).size();
  };
  EXPECT_EQ(unlike("devices_per_node = 2\n", "", 1), 0u);
  EXPECT_EQ(unlike("devices_per_node = 2\n", "devices_per_node = 4\n", 2), 0u);
  const std::string single =
      "devices_per_node = 2\nscale_up = { domain = 1, bandwidth = \"300 GBps\" }\n";
  EXPECT_EQ(unlike("devices_per_node = 2\n", single, 2), 1u);
}

// kApart with its pipelines laid out otherwise.
std::string apart_at(const std::string& where) {
  std::string text = test::kApart;
  const std::string key = "datacenter_per_replica = [\"cloud\", \"lab\"]";
  text.replace(text.find(key), key.size(), where);
  return text;
}

TEST(LayOut, PutsEachReplicaOfAStageSomewhere) {
  const Result<Plan> made =
      plan_of(apart_at("datacenter_per_stage = [[\"cloud\", \"lab\"], [\"lab\", \"cloud\"]]"));
  ASSERT_TRUE(made) << made.error().text();
  const Plan& plan = *made;
  EXPECT_EQ(plan.ranks[0].datacenter, "cloud");
  EXPECT_EQ(plan.ranks[2].datacenter, "lab");
  EXPECT_EQ(plan.ranks[3], (layout::Placement{3, 1, "cloud", 1, 0, 1}));
  EXPECT_TRUE(plan.replicas_lie_apart(1));
  // As a job it says the same again.
  const Result<Job> job = parse_job(to_json_text(plan), "plan.json");
  ASSERT_TRUE(job) << job.error().text();
  EXPECT_EQ(job->parallelism.datacenter_per_stage,
            (std::vector<std::vector<std::string>>{{"cloud", "lab"}, {"lab", "cloud"}}));
  EXPECT_EQ(parse_job(to_toml_text(*job, "again.toml", ""), "again.toml")->parallelism,
            job->parallelism);
}

TEST(LayOut, ListsOfDatacentersSayWhatIsWrong) {
  const auto refused = [](const std::string& where) {
    const Result<Plan> plan = plan_of(apart_at(where));
    return plan ? "it is accepted" : plan.error().text();
  };
  EXPECT_THAT(refused("datacenter_per_stage = [\"cloud\", [\"cloud\", \"lab\", \"lab\"]]"),
              HasSubstr("wanted one name for a stage, or 2, one for each pipeline"));
  EXPECT_THAT(refused("datacenter_per_stage = [\"cloud\", 7]"),
              HasSubstr("wants names of datacenters"));
  EXPECT_THAT(refused("datacenter_per_stage = [\"cloud\", [\"cloud\", \"barn\"]]"),
              HasSubstr("datacenter_per_stage[1][1]: there is no datacenter \"barn\""));
  EXPECT_THAT(refused("datacenter_per_stage = [\"cloud\", [\"cloud\", \"cloud\"]]"),
              HasSubstr("stage 1 of pipeline 0 does not fit: the 2 devices of cloud are taken"));
}

TEST(LayOut, EndsStayWhereTheirDataIs) {
  const std::string where = "datacenter_per_stage = [\"cloud\", \"lab\"]\n";
  EXPECT_TRUE(plan_of(apart_at(where + "first_stage_in = [\"cloud\"]\nlast_stage_in = [\"lab\"]")));
  const auto refused = [&](const std::string& key) {
    return plan_of(apart_at(where + key)).error().text();
  };
  EXPECT_THAT(refused("last_stage_in = [\"cloud\"]"),
              HasSubstr("stage 1 of pipeline 0 lies in lab, and parallelism.last_stage_in names "
                        "cloud"));
  EXPECT_THAT(refused("first_stage_in = [\"barn\"]"),
              HasSubstr("parallelism.first_stage_in: there is no datacenter \"barn\""));
}

// kApart has 8 samples.
TEST(LayOut, PipelinesMayTakeUnlikeParts) {
  const std::string where = "datacenter_per_replica = [\"cloud\", \"lab\"]\n";
  const Plan plan = *plan_of(apart_at(where + "microbatches_per_replica = [6, 2]"));
  EXPECT_EQ(plan.microbatches(), 6);
  EXPECT_EQ(plan.microbatches_of(1), 2);
  EXPECT_EQ(*parse_plan(to_json_text(plan), "plan.json"), plan);
  EXPECT_THAT(plan_of(apart_at(where + "microbatches_per_replica = [6, 3]")).error().text(),
              HasSubstr("microbatches_per_replica sums to 9, and global_batch = 8 has 8"));
  EXPECT_THAT(plan_of(apart_at(where + "microbatches_per_replica = [8]")).error().text(),
              HasSubstr("wanted 2 numbers of at least 1"));
}

TEST(Plan, TimesElsewhereAreOfPlacesThatHoldReplicas) {
  std::string text = test::kApart;
  text.replace(text.find("device = \"a100-80g\""), 19, "device = \"h100-80g\"");
  Plan plan = *plan_of(text);
  EXPECT_EQ(unlike_datacenters(plan, 0).size(), 1u);
  plan.stages[1].elsewhere = {{"lab", {.forward = 2_s, .backward = 3_s}}};
  EXPECT_TRUE(validate(plan));
  EXPECT_EQ(plan.cost_on(3, 1).forward, 2_s);
  EXPECT_EQ(plan.cost_on(2, 1), plan.stages[1].cost);
  EXPECT_EQ(*parse_plan(to_json_text(plan), "plan.json"), plan);
  plan.pairs = {{0, 1, 1_s, 1_s}};
  EXPECT_THAT(validate(plan).error().text(), HasSubstr("pairs hold for devices of one kind"));
  plan.pairs.clear();
  for (const char* wrong : {"cloud", "barn"}) {
    plan.stages[1].elsewhere.front().datacenter = wrong;
    EXPECT_THAT(validate(plan).error().text(), HasSubstr("has no replica of the stage but its"));
  }
}

TEST(LayOut, MicrobatchesBySpeedAreNoPlan) {
  const std::string where = "datacenter_per_replica = [\"cloud\", \"lab\"]\n";
  EXPECT_THAT(plan_of(apart_at(where + "microbatches_per_replica = \"auto\"")).error().text(),
              HasSubstr("is a question, and a Plan is an answer"));
  const Job job = *parse_job(apart_at(where + "microbatches_per_replica = \"auto\""), "job.toml");
  EXPECT_TRUE(job.parallelism.microbatches_by_speed);
  EXPECT_THAT(to_toml_text(job, "again.toml", ""),
              HasSubstr("microbatches_per_replica = \"auto\""));
  EXPECT_THAT(
      parse_job(apart_at(where + "microbatches_per_replica = \"even\""), "job.toml").error().text(),
      HasSubstr("microbatches_per_replica"));
}

TEST(Plan, ReplicasApartNeedALink) {
  Plan plan = *plan_of(test::kApart);
  plan.cluster.wan.clear();
  EXPECT_THAT(validate(plan).error().text(), HasSubstr("no WAN link between cloud and lab"));
}

TEST(LayOut, StageTimesReplaceTheLaw) {
  const std::string text = std::string(test::kTwoCpus) + R"([stage_times]
forward = "1 ms"
backward = ["2 ms", "3 ms"]
recompute = "1 ms"
transfer = "5 ms"
)";
  const Plan plan = *plan_of(text);
  EXPECT_EQ(plan.cost_source, CostSource::kStageTimes);
  EXPECT_EQ(plan.stages[0].cost, (StageCost{1_ms, 2_ms, 1_ms, 0_s, 0_s}));
  EXPECT_EQ(plan.stages[1].cost, (StageCost{1_ms, 3_ms, 0_s, 0_s, 0_s}));
  EXPECT_EQ(plan.wan_transfer, 5_ms);
  const Channel channel = channel_between(plan, 0, 1);
  EXPECT_EQ(channel.latency, 20_ms);  // still the link's
  EXPECT_EQ(channel.serialisation(plan.boundary), 5_ms);
}

TEST(Job, MemoryOfOtherOptimizersIsCountedAsAdamW) {
  const auto notes = [](const char* optimizer) {
    return parse_job(std::string(R"(
[model]
preset = "byte-3m"
[[cluster.datacenter]]
name = "a"
device = "a100-80g"
[parallelism]
pipeline = 1
[training]
global_batch = 4
)") + optimizer,
                     "job.toml")
        ->notes;
  };
  EXPECT_THAT(notes("[optimizer]\nname = \"sgd\""),
              ElementsAre(HasSubstr("optimizer.name = \"sgd\": its memory is counted as AdamW's")));
  EXPECT_THAT(notes("optimizer_bytes_per_parameter = 12\n[optimizer]\nname = \"sgd\""), IsEmpty());
  EXPECT_THAT(notes(""), IsEmpty());
}

// What takes no time is said: a backward that was measured may include it.
TEST(Job, RecomputationWithoutATimeIsNoted) {
  std::string text =
      std::string(test::kTwoCpus) + "[stage_times]\nforward = \"1 ms\"\nbackward = \"2 ms\"\n";
  EXPECT_THAT(parse_job(text, "job.toml")->notes, IsEmpty());
  text.replace(text.find("[training]\n"), 11, "[training]\nrecompute = \"full\"\n");
  EXPECT_THAT(parse_job(text, "job.toml")->notes,
              ElementsAre(HasSubstr("training.recompute = \"full\" takes no time")));
  EXPECT_THAT(parse_job(text + "recompute = \"1 ms\"\n", "job.toml")->notes, IsEmpty());
}

// 5 ms on the link and then its 20 ms, unless the job says another latency; with none at all, none.
TEST(LayOut, TransfersOfStageTimesKeepTheLatencyOfTheLink) {
  const auto channel = [](const std::string& more) {
    const std::string times = "[stage_times]\nforward = \"1 ms\"\nbackward = \"2 ms\"\n";
    return channel_between(*lay_out(*parse_job(test::kTwoCpus + times + more, "job.toml")), 0, 1);
  };
  EXPECT_EQ(channel("transfer = \"5 ms\"\n").latency, 20_ms);
  EXPECT_EQ(channel("transfer = \"5 ms\"\n").occupancy, 5_ms);
  EXPECT_EQ(channel("transfer = \"5 ms\"\nlatency = \"3 ms\"\n").latency, 3_ms);
  EXPECT_EQ(channel("transfer = \"5 ms\"\nlatency = \"0 ms\"\n").latency, 0_ms);
  EXPECT_EQ(channel("").latency, 20_ms);
}

// The V100 has no bf16; the A100 has no fp8, and on the V100 fp8 is the larger lack.
TEST(NotesOnPrecision, NameEachKindOfDeviceOnce) {
  const auto notes = [](const std::string& device, const std::string& precision) {
    std::string text = "[model]\npreset = \"byte-3m\"\n[training]\nglobal_batch = 1\n";
    text += fmt::format("precision = \"{}\"\n[parallelism]\npipeline = 1\n", precision);
    for (const char* name : {"a", "b"}) {
      text += fmt::format("[[cluster.datacenter]]\nname = \"{}\"\ndevice = \"{}\"\n", name, device);
    }
    const auto job = parse_job(text, "job.toml");
    EXPECT_TRUE(job) << job.error().text();
    return job->notes;
  };
  const std::string fp16_alone =
      "precision = \"bf16\": the matrix units of {} take fp16 alone; "
      "counted as fast as fp16";
  EXPECT_THAT(notes("v100-16g", "bf16"),
              ElementsAre(fmt::format(fmt::runtime(fp16_alone), "v100-16g")));
  EXPECT_THAT(notes("emulated:v100", "bf16"),
              ElementsAre(fmt::format(fmt::runtime(fp16_alone), "emulated:v100-32g")));
  EXPECT_THAT(notes("v100", "fp16"), IsEmpty());
  EXPECT_THAT(notes("a100", "bf16"), IsEmpty());
  EXPECT_THAT(notes("a100", "fp8"), ElementsAre("precision = \"fp8\": a100-80g has no peak_fp8; "
                                                "counted at 16 bits"));
  EXPECT_THAT(notes("h100", "fp8"), IsEmpty());
}

TEST(LayOut, StageTimesMaySayWhatTheWeightsTake) {
  const std::string text = std::string(test::kTwoCpus) + R"([stage_times]
forward = "1 ms"
backward = ["2 ms", "3 ms"]
backward_weight = )";
  const Plan plan = *plan_of(text + R"(["500 us", "1 ms"])");
  EXPECT_EQ(plan.stages[0].cost.backward_weight, 0.5_ms);
  EXPECT_EQ(plan.stages[1].cost.backward_weight, 1_ms);
  EXPECT_THAT(plan_of(text + R"("2500 us")").error().text(),
              HasSubstr("\": is part of a backward and longer than it"));
}

TEST(Job, RefusesByNameWhatIsNotThereYet) {
  EXPECT_EQ(complaint("pipeline = 2", "pipeline = 2").message, "");
  EXPECT_THAT(complaint("pipeline = 2", "pipeline = \"auto\"").text(),
              HasSubstr("job.toml:19: parallelism.pipeline = \"auto\": asks for a search\n  try an "
                        "explicit number, or tombolo plan"));
  EXPECT_THAT(complaint("[parallelism]\npipeline = 2", "").text(),
              HasSubstr("is left out, which asks for a search\n  try [parallelism] with"));
  EXPECT_THAT(complaint("pipeline = 2", "pipeline = 2\nschedule = \"auto\"").text(),
              HasSubstr("parallelism.schedule = \"auto\": asks for a search"));
}

TEST(Job, SaysWhatIsWrongAndWhatToTry) {
  const Error unknown = complaint("micro_batch = 2", "micro_bach = 2");
  EXPECT_EQ(unknown.exit_code(), 2);
  EXPECT_THAT(unknown.text(), HasSubstr("micro_bach"));
  EXPECT_THAT(unknown.text(), HasSubstr("micro_batch"));
  EXPECT_THAT(complaint("global_batch", "globl_batch").text(),
              HasSubstr("training.global_batch is missing"));
  EXPECT_THAT(complaint("micro_batch = 2", "micro_batch = 2\nprecison = \"bf16\"").text(),
              HasSubstr("precision"));
  EXPECT_THAT(complaint("\"20 ms\"", "\"20 msec\"").text(),
              HasSubstr("job.toml:12: cluster.wan[0].one_way_latency = \"20 msec\": unknown unit "
                        "\"msec\""));
  EXPECT_THAT(complaint("\"20 ms\"", "20").text(), HasSubstr("one_way_latency"));
  EXPECT_THAT(complaint("[\"west\", \"east\"]", "[\"east\", \"mars\"]").text(),
              HasSubstr("there is no datacenter \"mars\""));
  EXPECT_THAT(complaint("global_batch = 8", "global_batch = 7").text(),
              HasSubstr("training.global_batch = 7: not a multiple of micro_batch x data = 2"));
  EXPECT_THAT(complaint("pipeline = 2", "pipeline = 9").text(),
              HasSubstr("the model has only 4 layers"));
}

TEST(Job, AMissingWanLinkIsNamed) {
  std::string text = test::kTwoCpus;
  const size_t wan = text.find("[[cluster.wan]]");
  text.erase(wan, text.find("[training]") - wan);
  const Result<Plan> plan = plan_of(text);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().exit_code(), 2);
  EXPECT_THAT(plan.error().text(), HasSubstr("there is no WAN link between west and east"));
  EXPECT_THAT(plan.error().text(), HasSubstr("[[wan]]"));
}

TEST(Job, AnUnreadableFileIsUnusable) {
  const Result<Job> job = read_job("no/such/job.toml");
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().exit_code(), 2);
}

TEST(Job, AFileOfDatacentersIsNone) {
  const Result<Job> job = parse_job("[[datacenter]]\nname = \"oslo\"\nnodes = 2\n", "oslo.toml");
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().text(),
            "oslo.toml:1: a file of datacenters, and no job\n"
            "  try a job with [model], [training] and [cluster] file = \"oslo.toml\"");
}

TEST(PlanFile, ReadsBackWhatItWritesToTheLastBit) {
  const Plan plan = *plan_of(test::kTwoCpus);
  const std::string text = to_json_text(plan);
  const Result<Plan> again = parse_plan(text, "plan.json");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(*again, plan);
  EXPECT_EQ(to_json_text(*again), text);
  EXPECT_EQ(plan_digest(*again), plan_digest(plan));
  EXPECT_EQ(*from_value(to_value(plan), "trace.jsonl"), plan);
}

TEST(PlanFile, TheSameJobGivesTheSameBytes) {
  EXPECT_EQ(to_json_text(*plan_of(test::kTwoCpus)), to_json_text(*plan_of(test::kTwoCpus)));
}

TEST(PlanFile, RefusesPlansWhosePartsDoNotFit) {
  const Plan good = *plan_of(test::kTwoCpus);
  const auto message = [](const Plan& plan) {
    const Result<Plan> read = parse_plan(to_json_text(plan), "plan.json");
    return read ? "accepted" : read.error().text();
  };
  EXPECT_EQ(message(good), "accepted");
  Plan plan = good;
  plan.stages.pop_back();
  EXPECT_THAT(message(plan), HasSubstr("1 stages for pipeline = 2"));
  plan = good;
  plan.ranks[1].rank = 0;
  EXPECT_THAT(message(plan), HasSubstr("ranks[1] has no place in the Plan"));
  plan = good;
  plan.ranks[1].device = 5;
  EXPECT_THAT(message(plan), HasSubstr("rank 1 sits on a device that the cluster does not have"));
  plan = good;
  plan.stages[1].slice.layers = 1;
  EXPECT_THAT(message(plan), HasSubstr("the stages hold 3 of the model's 4 layers"));
  plan = good;
  plan.cluster.wan.clear();
  EXPECT_THAT(message(plan), HasSubstr("there is no WAN link between west and east"));
}

TEST(PlanFile, RefusesAnotherVersion) {
  std::string text = to_json_text(*plan_of(test::kTwoCpus));
  text.replace(text.find("\"tombolo_plan\": 1"), 17, "\"tombolo_plan\": 2");
  EXPECT_THAT(parse_plan(text, "plan.json").error().text(),
              HasSubstr("this program reads version 1"));
}

TEST(Job, StagesMayBeGivenTheirDatacenters) {
  // Against the order of the file, and more in the second than in the first.
  std::string text = test::kTwoCpus;
  const std::string from = "pipeline = 2\n";
  text.replace(text.find(from), from.size(),
               "pipeline = 3\nlayers_per_stage = [2, 1, 1]\n"
               "datacenter_per_stage = [\"east\", \"east\", \"west\"]\n");
  text.replace(text.find("name = \"east\""), 13, "nodes = 2\nname = \"east\"");
  const Result<Plan> plan = plan_of(text);
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ(plan->ranks[0].datacenter, "east");
  EXPECT_EQ(plan->ranks[1].datacenter, "east");
  EXPECT_EQ(plan->ranks[1].node, 1);
  EXPECT_EQ(plan->ranks[2].datacenter, "west");
  EXPECT_EQ(plan->ranks[2].node, 0);
  EXPECT_EQ(plan->stages[0].slice.layers, 2);
}

TEST(Job, ADatacenterThatIsUnknownOrFullIsNamed) {
  const std::string from = "pipeline = 2\n";
  const auto with = [&](const std::string& list) {
    return complaint(from, from + "datacenter_per_stage = " + list + "\n");
  };
  EXPECT_THAT(with("[\"west\", \"north\"]").text(), HasSubstr("no datacenter \"north\""));
  EXPECT_THAT(with("[\"west\"]").text(), HasSubstr("1 names for 2 stages"));
  EXPECT_EQ(with("[\"west\", \"west\"]").exit_code(), 3);
  EXPECT_THAT(with("[\"west\", \"west\"]").text(), HasSubstr("west has 1 devices"));
}

TEST(Plan, CallersKeepTheirPromises) {
  Plan plan = *plan_of(test::kReplicated);
  const auto stages = static_cast<int32_t>(plan.stages.size());
  EXPECT_DEATH(plan.rank_of(stages, 1), fmt::format("there is no stage {} of pipeline 1", stages));
  EXPECT_DEATH(plan.rank_of(0, plan.replicas()), "there is no stage 0 of pipeline");
  EXPECT_DEATH(plan.may_recompute(plan.stages.size()),
               fmt::format("stage {} of {}", stages, stages));
  plan.training.micro_batch = 0;
  EXPECT_DEATH(plan.microbatches(), "microbatches of 0 in");
}

}  // namespace
}  // namespace tombolo::plan
