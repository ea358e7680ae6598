#include "spec/plan/resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/plan/job.h"

namespace tombolo::plan {
namespace {

using ::testing::HasSubstr;

// Two stages in two datacenters of `nodes` nodes with `devices` devices.
Plan two_stages(int nodes, int devices, const std::string& parallelism,
                const std::string& wan = "") {
  const std::string text = fmt::format(R"(
    [model]
    layers = 4
    hidden = 64
    heads = 8
    vocabulary = 256
    sequence = 32
    [[cluster.datacenter]]
    name = "a"
    device = "h100-80g"
    nodes = {0}
    devices_per_node = {1}
    [[cluster.datacenter]]
    name = "b"
    device = "h100-80g"
    nodes = {0}
    devices_per_node = {1}
    [[cluster.wan]]
    between = ["a", "b"]
    one_way_latency = "10 ms"
    node_pair_limit = "5 Gbps"
    {2}
    [training]
    global_batch = 192
    [parallelism]
    pipeline = 2
    {3}
  )",
                                       nodes, devices, wan, parallelism);
  const auto job = parse_job(text, "job.toml");
  CHECK(job, "{}", job.error().text());
  const auto plan = lay_out(*job);
  CHECK(plan, "{}", plan.error().text());
  return *plan;
}

// By the name of the resource.
double share_of(const Resources& resources, const Route& route, const std::string& name) {
  for (const Use& use : route) {
    if (resources.all()[use.resource].name == name) return use.share;
  }
  return 0;
}

TEST(Route, AMessageOverTheWanPassesCardsAndNodePair) {
  const Plan plan = two_stages(1, 1, "", "path_limit = \"4 Gbps\"");
  Resources resources(plan);
  const Route route = resources.message(0, 1);
  ASSERT_EQ(route.size(), 4u);
  for (const char* name :
       {"rank 0, network out", "rank 1, network in", "a node 0 -> b node 0", "a -> b"}) {
    EXPECT_EQ(share_of(resources, route, name), 1) << name;
  }
  EXPECT_EQ(resources.all()[route[2].resource].capacity, 5_Gbps);
  EXPECT_EQ(resources.all()[route[3].resource].capacity, 4_Gbps);
  // The way back passes the other direction of each.
  const Route back = resources.message(1, 0);
  for (const Use& use : back) {
    for (const Use& there : route) EXPECT_NE(use.resource, there.resource);
  }
}

// Eight pipelines of one node each side: their cell has one pair of nodes, and no more.
TEST(Route, ACellHasNoMoreThanItsNodePairs) {
  const Plan one_pair = two_stages(1, 8, "data = 8\nsharing = \"temporal\"");
  Resources resources(one_pair);
  EXPECT_DOUBLE_EQ(share_of(resources, resources.shared_message(0, 8), "a node 0 -> b node 0"), 1);
  EXPECT_DOUBLE_EQ(shared_channel(one_pair, 0, 8).rate.value, (5_Gbps).value);

  const Plan eight_pairs = two_stages(8, 1, "data = 8\nsharing = \"temporal\"");
  Resources others(eight_pairs);
  const Route route = others.shared_message(0, 8);
  EXPECT_DOUBLE_EQ(share_of(others, route, "a node 3 -> b node 3"), 1.0 / 8);
  // The sender's card scatters all of it, the others' carry their part.
  EXPECT_DOUBLE_EQ(share_of(others, route, "rank 0, network out"), 1);
  EXPECT_DOUBLE_EQ(share_of(others, route, "rank 1, network out"), 1.0 / 8);
  EXPECT_DOUBLE_EQ(shared_channel(eight_pairs, 0, 8).rate.value, 8 * (5_Gbps).value);
}

// Three pipelines on nodes of two devices: two on the first pair, one on the second. Each carries a
// third, so that the first pair is the last to have its part over.
TEST(Route, TheFullestNodePairHoldsACell) {
  const Plan plan = two_stages(2, 2, "data = 3\nsharing = \"temporal\"");
  Plan lopsided = plan;
  Resources resources(lopsided);
  const Route route = resources.shared_message(0, 3);
  EXPECT_DOUBLE_EQ(share_of(resources, route, "a node 0 -> b node 0"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(share_of(resources, route, "a node 1 -> b node 1"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(shared_channel(lopsided, 0, 3).rate.value, 1.5 * (5_Gbps).value);
}

// Four shards on two nodes send to two shards on one: half of each message by each of two pairs.
TEST(Route, ShardsSendSideBySide) {
  const Plan plan = two_stages(2, 2, "tensor_per_stage = [4, 2]");
  ASSERT_EQ(plan.ranks[0].shards, 4);
  ASSERT_EQ(plan.ranks[1].shards, 2);
  Resources resources(plan);
  const Route route = resources.message(0, 1);
  EXPECT_DOUBLE_EQ(share_of(resources, route, "a node 0 -> b node 0"), 0.5);
  EXPECT_DOUBLE_EQ(share_of(resources, route, "a node 1 -> b node 0"), 0.5);
  EXPECT_DOUBLE_EQ(channel_between(plan, 0, 1).rate.value, 2 * (5_Gbps).value);
  // The ports of all shards are one resource.
  EXPECT_EQ(resources.all()[route[0].resource].capacity, 4 * 25_GBps);
  EXPECT_EQ(resources.all()[route[1].resource].capacity, 2 * 25_GBps);
}

// Three pipelines, two of them in "a": replicas apart sum by messages, each with its own route.
TEST(Route, ASumAcrossDatacentersIsMessages) {
  const Plan plan = two_stages(2, 2, "data = 3\ndatacenter_per_replica = [\"a\", \"a\", \"b\"]",
                               "path_limit = \"4 Gbps\"");
  Resources resources(plan);
  EXPECT_TRUE(resources.sum_of_gradients(0).empty());
  EXPECT_DOUBLE_EQ(share_of(resources, resources.message(0, 1), "rank 0, scale-up out"), 1);
  EXPECT_DOUBLE_EQ(share_of(resources, resources.message(0, 2), "a -> b"), 1);
}

TEST(Route, ImaginedTransfersPassNothing) {
  Plan plan = two_stages(1, 1, "");
  plan.cost_source = CostSource::kStageTimes;
  plan.wan_transfer = 2_ms;
  Resources resources(plan);
  EXPECT_TRUE(resources.message(0, 1).empty());
}

// ---- where shards lie ----

std::vector<layout::Place> places(const Plan& plan, int32_t rank) {
  std::vector<layout::Place> out;
  for (int64_t s = 0; s < plan.ranks[static_cast<size_t>(rank)].shards; ++s) {
    out.push_back(plan.place_of(rank, s));
  }
  return out;
}

Plan on_one_cluster(const std::string& parallelism) {
  const auto job = parse_job(fmt::format(R"(
    [model]
    layers = 4
    hidden = 64
    heads = 8
    vocabulary = 256
    sequence = 32
    [[cluster.datacenter]]
    name = "a"
    device = "h100-80g"
    nodes = 4
    devices_per_node = 8
    [training]
    global_batch = 64
    [parallelism]
    {}
  )",
                                         parallelism),
                             "job.toml");
  CHECK(job, "{}", job.error().text());
  const auto plan = lay_out(*job);
  CHECK(plan, "{}", plan.error().text());
  return *plan;
}

// 2 x 2 x 4 x 2 = 32 devices. Innermost first: shards, then replicas, then stages.
TEST(Places, FollowTheOrderOfParallelism) {
  const Plan usual = on_one_cluster("tensor = 2\ncontext = 2\ndata = 4\npipeline = 2");
  EXPECT_EQ(usual.devices(), 32);
  EXPECT_EQ(places(usual, 1), (std::vector<layout::Place>{{0, 4}, {0, 5}, {0, 6}, {0, 7}}));
  EXPECT_EQ(places(usual, 4)[0], (layout::Place{2, 0}));  // stage 1 begins behind 16 devices
  EXPECT_TRUE(usual.ranks[1].devices.empty());

  // tp-dp-cp-pp: tensor 1 apart, data 2, context 8, pipeline 16.
  const Plan other =
      on_one_cluster("tensor = 2\ncontext = 2\ndata = 4\npipeline = 2\norder = \"tp-dp-cp-pp\"");
  EXPECT_EQ(places(other, 1), (std::vector<layout::Place>{{0, 2}, {0, 3}, {1, 2}, {1, 3}}));
  EXPECT_EQ(places(other, 4)[0], (layout::Place{2, 0}));
  EXPECT_TRUE(validate(other));

  const Plan inside_out =
      on_one_cluster("tensor = 2\ncontext = 2\ndata = 4\npipeline = 2\norder = \"tp-cp-pp-dp\"");
  EXPECT_EQ(places(inside_out, 4)[0],
            (layout::Place{0, 4}));  // stage 1 of replica 0 next to its stage 0
  EXPECT_TRUE(validate(inside_out));
}

TEST(Places, ADeviceHasOneRank) {
  Plan plan = on_one_cluster("tensor = 2\ndata = 4\npipeline = 2");
  plan.ranks[1].device = 1;  // of rank 0
  const Status twice = validate(plan);
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().text(),
              HasSubstr("rank 1 sits on device 1 of node 0 in a, which has a rank already"));
  plan = on_one_cluster("tensor = 2\ndata = 4\npipeline = 2");
  plan.ranks[1].shards = 3;
  EXPECT_THAT(validate(plan).error().text(), HasSubstr("rank 1 has 3 shards"));
  plan = on_one_cluster("tensor = 2\ndata = 4\npipeline = 2");
  plan.ranks[7].devices = {31, 32};
  EXPECT_THAT(validate(plan).error().text(), HasSubstr("the cluster does not have"));
}

TEST(Places, TooFewDevicesAndStrangeOrdersAreRefused) {
  const auto complaint = [](const std::string& parallelism) {
    const auto job = parse_job(
        "[model]\nlayers = 4\nhidden = 64\nheads = 8\nvocabulary = 256\nsequence = 32\n"
        "[[cluster.datacenter]]\nname = \"a\"\ndevice = \"h100-80g\"\nnodes = 1\n"
        "devices_per_node = 8\n[training]\nglobal_batch = 64\n[parallelism]\n" +
            parallelism,
        "job.toml");
    const auto plan = job ? lay_out(*job) : Result<Plan>(tl::unexpected(job.error()));
    return plan ? std::string() : plan.error().text();
  };
  EXPECT_EQ(complaint("tensor = 4\npipeline = 2"), "");
  EXPECT_THAT(complaint("tensor = 8\npipeline = 2"),
              HasSubstr("2 stages x 1 replicas x 8 shards need 16 devices, the cluster has 8"));
  EXPECT_THAT(complaint("pipeline = 1\ntensor = 2\norder = \"cp-dp-pp\""),
              HasSubstr("\"tp\" is missing"));
  EXPECT_THAT(complaint("pipeline = 1\norder = \"tp-tp-dp-pp\""),
              HasSubstr("\"tp\" is there twice"));
  EXPECT_THAT(complaint("pipeline = 1\norder = \"tp-xp-dp-pp\""), HasSubstr("\"xp\" is unknown"));
  EXPECT_THAT(complaint("pipeline = 2\ntensor_per_stage = [2]"),
              HasSubstr("wanted 2 numbers of at least 1"));
}

// Meta's layout of Llama 3 405B: 126 layers, embedding and head in the place of a layer each, one
// layer per chunk.
TEST(SplitLayers, EmbeddingAndHeadMayBeStagesOfTheirOwn) {
  model::Model llama;
  llama.layers = 126;
  const std::vector<model::Slice> slices = split_layers(
      llama, {{.pipeline = 16, .virtual_stages = 8}, layout::ScheduleKind::kInterleaved});
  ASSERT_EQ(slices.size(), 128u);
  EXPECT_EQ(slices[0], (model::Slice{0, 0, true, false}));
  EXPECT_EQ(slices[1], (model::Slice{0, 1, false, false}));
  EXPECT_EQ(slices[126], (model::Slice{125, 1, false, false}));
  EXPECT_EQ(slices[127], (model::Slice{126, 0, false, true}));
}

// 5 layers at position 0 and 3 at position 1, in two chunks each: 3 + 2 and 2 + 1.
TEST(SplitLayers, ANumberForEachPositionIsDividedAmongItsChunks) {
  model::Model m;
  m.layers = 8;
  layout::Parallelism parallelism{{.pipeline = 2, .virtual_stages = 2},
                                  layout::ScheduleKind::kInterleaved};
  parallelism.layers_per_stage = {5, 3};
  std::vector<int64_t> layers;
  for (const model::Slice& slice : split_layers(m, parallelism)) {
    layers.push_back(slice.layers);
  }
  EXPECT_EQ(layers, (std::vector<int64_t>{3, 2, 2, 1}));
}

}  // namespace
}  // namespace tombolo::plan
