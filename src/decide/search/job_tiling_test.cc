#include "decide/search/job_tiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "decide/search/fabric_price.h"
#include "predict/estimate/estimate.h"
#include "predict/workload/traffic.h"
#include "support/job_texts.h"

namespace tombolo::search {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

plan::Job small_job(std::string text,
                    std::initializer_list<std::pair<const char*, const char*>> changes = {}) {
  for (const auto& [from, to] : changes)
    text.replace(text.find(from), std::string(from).size(), to);
  const Result<plan::Job> read = plan::parse_job(text, "job.toml");
  EXPECT_TRUE(read) << read.error().text();
  return read ? *read : plan::Job{};
}

// A small GPT on 8 domains of 8.
constexpr const char* kSmall = R"(
[model]
preset = "gpt-22b"
[[cluster.datacenter]]
name = "here"
device = "a100-80g"
nodes = 8
devices_per_node = 8
scale_up = { domain = 8, bandwidth = "300 GBps" }
scale_out = { bandwidth = "200 Gbps" }
[training]
global_batch = 96
micro_batch = 1
stack = "megatron-2022"
[parallelism]
tensor = 2
pipeline = 2
data = 4
)";

std::vector<std::string> shapes(const plan::Job& job) {
  const Result<JobTiling> tiling = tile_jobs({job}, cost::Law::kTombolo);
  EXPECT_TRUE(tiling) << tiling.error().text();
  std::vector<std::string> out;
  for (const JobRectangle& each : tiling->jobs[0].rectangles) {
    out.push_back(fmt::format("{} x {}", each.rails, each.domains));
  }
  std::ranges::sort(out);
  return out;
}

TEST(JobTiling, AllowsRectanglesThatKeepGroupsOnRails) {
  EXPECT_THAT(shapes(small_job(kSmall)), ElementsAre("2 x 8", "4 x 4", "8 x 2"));
  // Six GPUs of a domain hold tensor 2 and three of six replicas; four hold no whole part of three.
  EXPECT_THAT(
      shapes(small_job(kSmall, {{"data = 4", "data = 6"}, {"pipeline = 2", "pipeline = 1"}})),
      ElementsAre("2 x 6", "4 x 3", "6 x 2"));
  EXPECT_THAT(
      shapes(small_job(kSmall, {{"data = 4", "data = 3"}, {"pipeline = 2", "pipeline = 4"}})),
      ElementsAre("6 x 4"));
  // A tensor group stays in its domain, unless no domain is large enough.
  EXPECT_THAT(shapes(small_job(kSmall, {{"tensor = 2", "tensor = 8"}})), ElementsAre("8 x 8"));
  EXPECT_THAT(shapes(small_job(kSmall, {{"tensor = 2", "tensor = 16"}, {"data = 4", "data = 1"}})),
              ElementsAre("4 x 8", "8 x 4"));
}

// The rule is arithmetic on degrees; the law of traffic counts every pair of GPUs. Where a width that breaks
// the rule keeps its bytes on rails all the same, nothing is lost but a shape.
TEST(JobTiling, GroupsStayOnTheirRailsInEveryRectangle) {
  Random random(23);
  const auto of = [&](std::initializer_list<int64_t> values) {
    return values.begin()[random.below(values.size())];
  };
  int rectangles = 0, others = 0, others_across = 0;
  for (int i = 0; i < 60; ++i) {
    plan::Job drawn = small_job(kSmall);
    layout::Parallelism& p = drawn.parallelism;
    p.tensor = of({1, 2, 4});
    p.context = of({1, 1, 2});
    p.data = of({1, 2, 3, 4, 6});
    p.pipeline = of({1, 2, 3, 4});
    p.order = random.below(2) == 0 ? "tp-cp-ep-dp-pp" : "tp-cp-ep-pp-dp";
    drawn.training.global_batch = 12 * p.data;
    cluster::Datacenter& here = drawn.cluster.datacenters[0];
    here.nodes = 96;
    here.scale_up.domain = here.devices_per_node = of({6, 8, 12});
    const JobTiling tiling = *tile_jobs({drawn}, cost::Law::kTombolo);
    for (int64_t rails = p.tensor; rails <= here.scale_up.domain; rails += p.tensor) {
      if (p.devices() % rails != 0) continue;
      plan::Job part = drawn;
      part.cluster.datacenters[0].scale_up.domain = rails;
      part.cluster.datacenters[0].devices_per_node = rails;
      part.cluster.datacenters[0].nodes = p.devices() / rails;
      const auto traffic = workload::Traffic::make(part, {});
      ASSERT_TRUE(traffic) << traffic.error().text();
      const workload::TrafficSummary sums = traffic->summarize();
      const auto other_rails = [&](workload::TrafficKind kind) {
        return sums.of(kind).at(workload::PairReach::kOtherRail).bytes.value > 0;
      };
      const bool across = other_rails(workload::TrafficKind::kTensor) ||
                          other_rails(workload::TrafficKind::kContext) ||
                          other_rails(workload::TrafficKind::kData);
      const auto found = std::ranges::find(tiling.jobs[0].rectangles, rails, &JobRectangle::rails);
      const bool allowed = found != tiling.jobs[0].rectangles.end();
      if (allowed) {
        EXPECT_EQ(other_rails(workload::TrafficKind::kPipeline),
                  found->stages > 1 && found->stages < p.pipeline);
      }
      EXPECT_FALSE(allowed && across) << p.tensor << " " << p.context << " " << p.data << " "
                                      << p.pipeline << " " << p.order << " on " << rails;
      rectangles += allowed;
      others += !allowed;
      others_across += !allowed && across;
    }
  }
  EXPECT_GT(rectangles, 60);
  EXPECT_GT(others_across, others / 2);
}

TEST(JobTiling, ARectangleIsAClusterOfItsOwn) {
  const plan::Job narrow = small_job(kSmall);
  const JobTiling tiling = *tile_jobs({narrow}, cost::Law::kTombolo);
  for (const JobRectangle& each : tiling.jobs[0].rectangles) {
    plan::Job alone = narrow;
    alone.cluster.datacenters[0].scale_up.domain = each.rails;
    alone.cluster.datacenters[0].devices_per_node = each.rails;
    alone.cluster.datacenters[0].nodes = each.domains;
    EXPECT_EQ(each.iteration, estimate::estimate(alone, cost::Law::kTombolo)->iteration);
  }
  EXPECT_LT(tiling.jobs[0].rectangles.front().iteration,
            tiling.jobs[0].rectangles.back().iteration);
}

TEST(JobTiling, ForwardsTokensOfExpertsOnRailsAlone) {
  const JobTiling tiling = *tile_jobs({small_job(test::kExpertsOn64)}, cost::Law::kTombolo);
  const TiledJob& experts = tiling.jobs[0];
  ASSERT_TRUE(experts.tile);
  const JobRectangle& rectangle = experts.rectangles[experts.tile->shape];
  EXPECT_EQ(rectangle.forwarding, *forwarding(small_job(test::kExpertsOn64)));
  EXPECT_EQ(*experts.clos_iteration, rectangle.iteration - rectangle.forwarding);
}

TEST(JobTiling, SaysWhatIsShort) {
  const plan::Job whole = small_job(kSmall, {{"tensor = 2", "tensor = 8"}});  // 64 GPUs
  const JobTiling two = *tile_jobs({whole, small_job(kSmall)}, cost::Law::kTombolo);
  EXPECT_FALSE(two.all_placed());
  EXPECT_EQ(two.tiling.gpus, 64);
  EXPECT_EQ(two.jobs[1].why_not, "takes 16 GPUs, and none is left over");
  const plan::Job large = small_job(kSmall, {{"data = 4", "data = 32"}});
  EXPECT_EQ(tile_jobs({large}, cost::Law::kTombolo)->jobs[0].why_not,
            "takes 128 GPUs, 64 more than the cluster has");
  // 24 and 40 GPUs: 6 x 4 leaves no 8 x 5, a Clos has room for both.
  const plan::Job odd =
      small_job(kSmall, {{"data = 4", "data = 3"}, {"pipeline = 2", "pipeline = 4"}});
  const plan::Job eights = small_job(kSmall, {{"tensor = 2", "tensor = 8"},
                                              {"data = 4", "data = 5"},
                                              {"pipeline = 2", "pipeline = 1"},
                                              {"global_batch = 96", "global_batch = 100"}});
  const JobTiling split = *tile_jobs({odd, eights}, cost::Law::kTombolo);
  EXPECT_EQ(split.tiling.gpus, 40);
  EXPECT_TRUE(split.tiling.proven);
  EXPECT_THAT(split.jobs[0].why_not,
              HasSubstr("24 GPUs are left over, none of them a rectangle of 6 x 4"));
  EXPECT_EQ(split.clos_gpus, 64);
}

TEST(JobTiling, NotesStagesThatHandOnToAnotherRail) {
  const plan::Job split =
      small_job(kSmall, {{"data = 4", "data = 2"}, {"pipeline = 2", "pipeline = 4"}});
  const JobTiling tiling = *tile_jobs({split}, cost::Law::kTombolo);
  const JobRectangle& rectangle = tiling.jobs[0].rectangles[tiling.jobs[0].tile->shape];
  EXPECT_EQ(rectangle.stages, rectangle.rails / 4);
  plan::Job whole = split;  // no other shape: 8 rails of two domains
  whole.cluster.datacenters[0].nodes = 2;
  const JobTiling edges = *tile_jobs({whole}, cost::Law::kTombolo);
  EXPECT_THAT(edges.notes, testing::Contains(HasSubstr("forwarded inside the rectangle")));
}

TEST(JobTiling, RefusesJobsOfDifferentClusters) {
  const Result<JobTiling> mixed = tile_jobs(
      {small_job(kSmall), small_job(kSmall, {{"nodes = 8", "nodes = 4"}})}, cost::Law::kTombolo);
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.error().exit_code(), 2);
  EXPECT_THAT(mixed.error().message, HasSubstr("nodes = 4, not 8"));
  EXPECT_FALSE(tile_jobs(std::vector<plan::Job>{}, cost::Law::kTombolo));
}

}  // namespace
}  // namespace tombolo::search
