#include "decide/geo/select_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/job_texts.h"

namespace tombolo::geo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Eight GPUs in oregon, four in paris; a microbatch is 1024 x 1024 numbers of 2 bytes.
std::string two_datacenters(const std::string& link, const std::string& rest) {
  return test::datacenters({{"oregon", 8}, {"paris", 4}}, "a100-80g") + R"(
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "30 ms"
node_pair_limit = "1 Gbps"
)" + link +
         R"(
[model]
layers = 8
hidden = 1024
heads = 8
vocabulary = 1000
sequence = 1024
[training]
global_batch = 24
micro_batch = 1
)" + rest;
}

Result<SelectionJob> read(const std::string& text) {
  return selection_of(TRY(plan::parse_open_job(text, "job.toml")));
}

TEST(SelectJob, ACellHasTheRateOfItsPairsOfNodes) {
  const auto job = read(two_datacenters("", "[selection]\npipelines_per_cell = 4\n"));
  ASSERT_TRUE(job) << job.error().text();
  const auto milliseconds = [&](int64_t cells) {
    return job->setting.link(0, 1, 4, cells)->occupancy / 1_ms;
  };
  // One cell of 4 pipelines on 4 pairs: 2,097,152 bytes at 4 x 125 MB/s.
  EXPECT_NEAR(milliseconds(1), 2097.152 / 500, 1e-9);
  // Two such cells share the four nodes of paris: 2 pairs each.
  EXPECT_NEAR(milliseconds(2), 2097.152 / 250, 1e-9);
  EXPECT_EQ(job->setting.link(0, 1, 4, 1)->latency, 30_ms);
}

TEST(SelectJob, CellsShareThePath) {
  // 0.25 Gbps for all: 31.25 MB/s for one cell, half of it for each of two.
  const auto job =
      read(two_datacenters("path_limit = \"0.25 Gbps\"", "[selection]\npipelines_per_cell = 4\n"));
  ASSERT_TRUE(job) << job.error().text();
  EXPECT_NEAR(job->setting.link(0, 1, 4, 1)->occupancy / 1_ms, 2097.152 / 31.25, 1e-9);
  EXPECT_NEAR(job->setting.link(0, 1, 4, 2)->occupancy / 1_ms, 2 * 2097.152 / 31.25, 1e-9);
}

TEST(SelectJob, TheRatioIsRoundedUpToPipelines) {
  const auto stated =
      read(two_datacenters("", "[selection]\npartitions = 2\ncommunication_to_compute = 2.5\n"));
  ASSERT_TRUE(stated) << stated.error().text();
  EXPECT_EQ(stated->setting.pipelines_per_cell, 3);
  const Seconds forward = stated->setting.sites[0].forward;
  // A transfer of 2.5 forward passes, in a third of the time by three pairs of nodes.
  EXPECT_NEAR(stated->setting.link(0, 1, 3, 1)->occupancy / forward, 2.5 / 3, 1e-12);

  const auto derived = read(two_datacenters("", "[selection]\npartitions = 2\n"));
  ASSERT_TRUE(derived) << derived.error().text();
  // One pair: 2,097,152 bytes at 125 MB/s.
  EXPECT_NEAR(derived->communication_to_compute, (16.777216_ms) / derived->setting.sites[0].forward,
              1e-9);
}

// A transfer that is stated as a time takes the link's latency, too, or the one beside it.
TEST(SelectJob, AStatedTransferHasALatency) {
  const auto link = [](const std::string& more) {
    const auto job = read(two_datacenters(
        "",
        "[stage_times]\nforward = \"1 ms\"\nbackward = \"2 ms\"\ntransfer = \"6 ms\"\n" + more));
    EXPECT_TRUE(job) << job.error().text();
    return *job->setting.link(0, 1, 3, 1);
  };
  const std::string two = "[selection]\npartitions = 2\n";
  EXPECT_EQ(link(two).occupancy, 2_ms);
  EXPECT_EQ(link(two).latency, 30_ms);
  EXPECT_EQ(link("latency = \"5 ms\"\n" + two).latency, 5_ms);
  EXPECT_EQ(link(two + "communication_to_compute = 2\n").latency, 0_ms);
}

TEST(SelectJob, TheBatchIsThatOfTheWholeJob) {
  // As everywhere: 24 sequences per iteration, however many pipelines there are today.
  for (const char* rest : {"", "[parallelism]\ndata = 3\n", "[parallelism]\ndata = 5\n"}) {
    const auto job = read(two_datacenters("", rest));
    ASSERT_TRUE(job) << job.error().text();
    EXPECT_EQ(job->setting.microbatches_together, 24) << rest;
    EXPECT_EQ(job->setting.microbatches_of_one(3), 8);
    EXPECT_EQ(job->setting.microbatches_of_one(5), 5);
  }
  // Stated microbatches are those of every pipeline, as Atlas has it.
  const auto stated = read(two_datacenters("", "[selection]\nmicro_batches = 7\n"));
  ASSERT_TRUE(stated) << stated.error().text();
  EXPECT_FALSE(stated->setting.microbatches_together);
  EXPECT_EQ(stated->setting.microbatches_of_all(5), 35);
  std::string text = two_datacenters("", "");
  text.replace(text.find("micro_batch = 1"), 15, "micro_batch = 5");
  const auto uneven = read(text);
  ASSERT_FALSE(uneven);
  EXPECT_THAT(uneven.error().text(),
              HasSubstr("global_batch = 24: not a multiple of micro_batch = 5"));
}

TEST(SelectJob, ACellHasNoMorePipelinesThanMicrobatches) {
  std::string text =
      two_datacenters("", "[selection]\npartitions = 2\ncommunication_to_compute = 9\n");
  text.replace(text.find("global_batch = 24"), 17, "global_batch = 4");
  const auto job = read(text);
  ASSERT_TRUE(job) << job.error().text();
  EXPECT_EQ(job->setting.pipelines_per_cell, 4);
  EXPECT_THAT(job->notes, ElementsAre(HasSubstr("9 pipelines would keep the WAN")));
}

TEST(SelectJob, TheSmallModelNeedsOnePartition) {
  const auto job = read(two_datacenters("", ""));
  ASSERT_TRUE(job) << job.error().text();
  EXPECT_EQ(job->setting.partitions, 1);
  EXPECT_THAT(job->notes, ElementsAre(HasSubstr("1 partitions: the fewest")));
  EXPECT_EQ(read(two_datacenters("", "[parallelism]\npipeline = 4\n"))->setting.partitions, 4);
}

TEST(SelectJob, EndsAreWhereTheirDataIs) {
  const std::string four = "[parallelism]\npipeline = 4\n";
  const auto sites = [&](const std::string& ends) {
    const auto job =
        read(two_datacenters("", four + ends + "[selection]\npipelines_per_cell = 1\n"));
    EXPECT_TRUE(job) << job.error().text();
    std::vector<std::pair<std::string, bool>> out;
    for (const SelectionSite& site : job->setting.sites) out.emplace_back(site.name, site.must);
    return out;
  };
  using Sites = std::vector<std::pair<std::string, bool>>;
  EXPECT_EQ(sites(""), (Sites{{"oregon", false}, {"paris", false}}));
  EXPECT_EQ(sites("first_stage_in = [\"paris\"]\n"), (Sites{{"paris", true}, {"oregon", false}}));
  EXPECT_EQ(sites("first_stage_in = [\"paris\"]\nlast_stage_in = [\"oregon\"]\n"),
            (Sites{{"paris", true}, {"oregon", true}}));
  EXPECT_EQ(sites("first_stage_in = [\"paris\"]\nlast_stage_in = [\"paris\"]\n"),
            (Sites{{"paris", true}}));
}

// More of them allowed, no worse answer: all are tried, one datacenter for both ends included.
TEST(SelectJob, OfSeveralEndsTheBestAreTaken) {
  const auto best = [&](const std::string& parallelism) {
    const auto job = read(two_datacenters(
        "", "[parallelism]\n" + parallelism + "[selection]\npipelines_per_cell = 1\n"));
    EXPECT_TRUE(job) << job.error().text();
    const auto found = select_datacenters(job->setting);
    EXPECT_TRUE(found) << found.error().text();
    const double chosen = found->rows[found->chosen].throughput();
    return std::pair(found->beyond ? found->beyond->throughput() : chosen, chosen);
  };
  const std::string both = "[\"oregon\", \"paris\"]\n";
  for (const std::string pipeline : {"pipeline = 1\n", "pipeline = 2\n", "pipeline = 4\n"}) {
    std::pair<double, double> most;
    for (const std::string one : {"[\"oregon\"]\n", "[\"paris\"]\n"}) {
      most = std::max(most, best(pipeline + "first_stage_in = " + one + "last_stage_in = " + one));
      EXPECT_LE(best(pipeline + "first_stage_in = " + one + "last_stage_in = " + one),
                best(pipeline + "first_stage_in = " + one + "last_stage_in = " + both));
      EXPECT_LE(best(pipeline + "first_stage_in = " + one + "last_stage_in = " + one),
                best(pipeline + "last_stage_in = " + one));
    }
    EXPECT_LE(most, best(pipeline + "first_stage_in = " + both + "last_stage_in = " + both));
  }
}

TEST(SelectJob, EndsThatCannotBeAreNamed) {
  const auto refused = [&](const std::string& rest) {
    const auto job = read(two_datacenters("", "[parallelism]\npipeline = 4\n" + rest));
    EXPECT_FALSE(job);
    if (job) return std::string("it is accepted");
    EXPECT_EQ(job.error().code, ErrorCode::kInfeasible);
    return job.error().text();
  };
  EXPECT_THAT(refused("first_stage_in = [\"paris\"]\n[selection]\nmust_not = [\"paris\"]\n"),
              HasSubstr("first_stage_in = [paris]: none of these is left to choose from"));
  EXPECT_THAT(
      refused("first_stage_in = [\"paris\"]\nlast_stage_in = [\"paris\"]\n"
              "[selection]\nmust = [\"oregon\"]\n"),
      HasSubstr("selection.must: [oregon] must take part, and parallelism: first_stage_in"));
}

TEST(SelectJob, CostsCountWhatCrosses) {
  const auto job = read(two_datacenters(
      "price = \"0.05 USD/GB\"\n",
      "[parallelism]\npipeline = 8\n[selection]\npipelines_per_cell = 1\nmust = [\"paris\"]\n"));
  ASSERT_TRUE(job) << job.error().text();
  const auto found = select_datacenters(job->setting);
  ASSERT_TRUE(found) << found.error().text();
  // 24 microbatches of 2,097,152 bytes, there and back, over one boundary; devices have no price.
  EXPECT_NEAR(found->rows[0].cost.value, 24 * 2 * 2'097'152 * 0.05e-9, 1e-12);
  SelectionSetting tied = job->setting;
  tied.tied_egress = [](size_t first, size_t last, int64_t pipelines) {
    return Dollars{static_cast<double>(100 * first + 10 * last) + static_cast<double>(pipelines)};
  };
  EXPECT_NEAR(select_datacenters(tied)->rows[0].cost.value, 24 * 2 * 2'097'152 * 0.05e-9 + 11,
              1e-12);
}

// From the first one on: c is nearer to it than the one with the most devices.
TEST(SelectJob, DistancesAreFromTheFirst) {
  std::string text = test::datacenters({{"a", 4}, {"b", 16}, {"c", 4}}, "a100-80g");
  for (const auto& [x, y, latency] :
       {std::tuple("a", "b", 90), std::tuple("a", "c", 1), std::tuple("b", "c", 50)})
    text += fmt::format(
        "\n[[cluster.wan]]\nbetween = [\"{}\", \"{}\"]\none_way_latency = \"{} ms\"\n"
        "node_pair_limit = \"1 Gbps\"\n",
        x, y, latency);
  text +=
      "[model]\nlayers = 8\nhidden = 1024\nheads = 8\nvocabulary = 1000\nsequence = 1024\n"
      "[training]\nglobal_batch = 24\nmicro_batch = 1\n"
      "[parallelism]\npipeline = 8\nfirst_stage_in = [\"a\"]\n[selection]\npipelines_per_cell = "
      "1\norder = \"distance\"\n";
  const auto job = read(text);
  ASSERT_TRUE(job) << job.error().text();
  std::vector<std::string> names;
  for (const SelectionSite& site : job->setting.sites) names.push_back(site.name);
  EXPECT_THAT(names, ElementsAre("a", "c", "b"));
}

TEST(SelectJob, WhatNoLawKnowsIsRefused) {
  const auto tensor = read(two_datacenters("", "[parallelism]\npipeline = 2\ntensor = 2\n"));
  ASSERT_FALSE(tensor);
  EXPECT_THAT(tensor.error().text(), HasSubstr("parallelism.tensor = 2: select counts a GPU"));
  const auto schedule = read(two_datacenters("", "[parallelism]\nschedule = \"zb-v\"\n"));
  ASSERT_FALSE(schedule);
  EXPECT_THAT(schedule.error().text(), HasSubstr("\"zb-v\": select has no law for it"));
  const auto apart = read(two_datacenters(
      "", "[parallelism]\npipeline = 2\ndata = 1\ndatacenter_per_replica = [\"paris\"]\n"));
  ASSERT_FALSE(apart);
  EXPECT_THAT(apart.error().text(), HasSubstr("datacenter_per_replica is given, and a search"));
}

}  // namespace
}  // namespace tombolo::geo
