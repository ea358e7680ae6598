#include "spec/plan/data_shares.h"

#include <gmock/gmock.h>

#include "spec/plan/job.h"

namespace tombolo::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two stages x two pipelines, ranks stage x 2 + pipeline: the first stage in oslo, the last one
// where it is said.
Plan shared_plan(const std::string& last, const std::vector<DataShare>& shares,
                 const std::string& schedule = "1f1b", int virtual_stages = 1) {
  std::string text;
  for (const char* name : {"oslo", "paris"}) {
    text += fmt::format(
        "[[cluster.datacenter]]\nname = \"{}\"\ndevice = \"cpu\"\nnodes = 4\n"
        "devices_per_node = 1\n",
        name);
  }
  text += fmt::format(
      "[[cluster.wan]]\nbetween = [\"oslo\", \"paris\"]\none_way_latency = \"5 ms\"\n"
      "node_pair_limit = \"1 Gbps\"\n[stage_times]\nforward = \"1 ms\"\nbackward = \"2 ms\"\n"
      "[training]\nglobal_batch = 4\n[parallelism]\npipeline = 2\ndata = 2\n"
      "datacenter_per_stage = [\"oslo\", \"{}\"]\nschedule = \"{}\"\nvirtual_stages = {}\n"
      "[run]\nseed = 7\n",
      last, schedule, virtual_stages);
  const Result<Job> job = parse_job(text, "job.toml");
  CHECK(job, "{}", job.error().text());
  Result<Plan> plan = lay_out(*job);
  CHECK(plan, "{}", plan.error().text());
  plan->data = Data{.share = shares};
  return *plan;
}

DataShare in(const std::vector<std::string>& datacenters,
             const std::vector<int64_t>& pipelines = {}) {
  return {.tokens = {"files"}, .datacenters = datacenters, .pipelines = pipelines};
}

// Pipelines of each share.
std::vector<std::vector<int32_t>> readers(const Plan& plan) {
  const auto found = data_readers(plan);
  EXPECT_TRUE(found) << found.error().text();
  std::vector<std::vector<int32_t>> out;
  for (const DataReaders& each : found.value_or(std::vector<DataReaders>{}))
    out.push_back(each.pipelines);
  return out;
}

std::string refusal(const Plan& plan) {
  const auto found = data_readers(plan);
  EXPECT_FALSE(found);
  return found ? "" : found.error().text();
}

const std::vector<int32_t> kBoth = {0, 1};

TEST(DataReaders, OfFilesForAllAreAllPipelines) {
  Plan plan = shared_plan("paris", {});
  plan.data->tokens = {"a.bin", "b.bin"};
  const auto found = data_readers(plan);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().pipelines, kBoth);
  EXPECT_THAT(found->front().tokens, ElementsAre("a.bin", "b.bin"));
  EXPECT_EQ(found->front().seed, 7u);  // of [run]
  plan.data->seed = 9;
  EXPECT_EQ(data_readers(plan)->front().seed, 9u);
}

TEST(DataReaders, AreThePipelinesWithBothEndsInTheShare) {
  EXPECT_THAT(readers(shared_plan("oslo", {in({"oslo"})})), ElementsAre(kBoth));
  EXPECT_THAT(readers(shared_plan("paris", {in({"paris", "oslo"})})), ElementsAre(kBoth));
  // Not by their places, but by name.
  const std::vector<int32_t> first = {0}, second = {1};
  const Plan named = shared_plan("oslo", {in({"oslo"}, {1}), in({}, {0})});
  EXPECT_THAT(readers(named), ElementsAre(second, first));
  EXPECT_EQ(data_readers(named)->back().seed, 8u);
  // Who is named elsewhere does not count.
  EXPECT_THAT(readers(shared_plan("oslo", {in({"oslo"}), in({"oslo"}, {1})})),
              ElementsAre(first, second));
}

// One rank has stages 0 and 3, the other one 1 and 2.
TEST(DataReaders, OfAPipelineThatComesBackAreInOneDatacenter) {
  EXPECT_THAT(readers(shared_plan("paris", {in({"oslo"})}, "zb-v", 2)), ElementsAre(kBoth));
  EXPECT_THAT(refusal(shared_plan("paris", {in({"paris"})}, "zb-v", 2)),
              HasSubstr("pipeline 0: rank 0 in oslo has its first and its last stage"));
}

// As no job can place them yet: pipeline 0 in oslo, pipeline 1 in paris.
TEST(DataReaders, OfPipelinesInTwoDatacentersReadWhatLiesThere) {
  Plan plan = shared_plan("oslo", {in({"paris"}), in({"oslo"})});
  plan.ranks[1].datacenter = plan.ranks[3].datacenter = "paris";
  const std::vector<int32_t> first = {0}, second = {1};
  EXPECT_THAT(readers(plan), ElementsAre(second, first));
}

TEST(DataReaders, SayWhoLiesElsewhere) {
  const std::string spans = refusal(shared_plan("paris", {in({"oslo"})}));
  EXPECT_THAT(spans, HasSubstr("no data.share is for pipeline 0: rank 0 in oslo has its first "
                               "stage, rank 2 in paris its last one"));
  EXPECT_THAT(spans, HasSubstr("try the files in both datacenters"));
  EXPECT_THAT(refusal(shared_plan("paris", {in({"oslo"}, {0, 1})})),
              HasSubstr("data.share[0] names pipeline 0 and lies in oslo: rank 2, which has its "
                        "last stage, is in paris"));
  EXPECT_THAT(refusal(shared_plan("oslo", {in({"oslo"}), in({"paris"})})),
              HasSubstr("no rank reads data.share[1] in paris; of pipeline 0, rank 0 in oslo has "
                        "its first stage, rank 2 in oslo its last one"));
  EXPECT_THAT(refusal(shared_plan("oslo", {in({}, {0})})),
              HasSubstr("no data.share is for pipeline 1"));
  EXPECT_THAT(refusal(shared_plan("oslo", {in({}, {0, 1, 2})})),
              HasSubstr("data.share[0].pipelines names pipeline 2: with parallelism.data = 2 they "
                        "count from 0 to 1"));
}

}  // namespace
}  // namespace tombolo::plan
