#include "predict/sim/channels.h"

#include <gtest/gtest.h>

#include "spec/plan/job.h"
#include "support/job_texts.h"

namespace tombolo::sim {
namespace {

// Of a WAN flow's links, behind the two cards.
constexpr size_t kPair = 2, kPath = 3;

plan::Plan four_stages() {
  return *plan::lay_out(*plan::parse_job(test::datacenters({{"a", 2}, {"b", 2}}, "cpu") + R"(
    [model]
    preset = "byte-3m"
    [[cluster.wan]]
    between = ["a", "b"]
    one_way_latency = "20 ms"
    node_pair_limit = "1 Gbps"
    path_limit = "1.5 Gbps"
    tcp_window = "1 MB"
    connections = 4
    [training]
    global_batch = 4
    [parallelism]
    pipeline = 4
  )",
                                         "job.toml"));
}

TEST(Channels, InsideADatacenterCrossTheCardsOfBothRanks) {
  const Channels channels = channels_of(four_stages());
  ASSERT_EQ(channels.laws.size(), 6u);  // three boundaries, both ways
  const ChannelLaw& inside = channels.laws.at({0, 1});
  ASSERT_EQ(inside.flow.links.size(), 2u);
  for (const uint32_t link : inside.flow.links) EXPECT_EQ(channels.links[link].capacity, 25_GBps);
  EXPECT_EQ(inside.flow.cap, 25_GBps);
  EXPECT_EQ(inside.latency.ns, 5'000);
}

// 4 x 1 MB / 40 ms = 100 MB/s is below the pair's 125 MB/s.
TEST(Channels, OverTheWanAreCappedAndCrossCardsPairAndPath) {
  const Channels channels = channels_of(four_stages());
  const ChannelLaw& wan = channels.laws.at({1, 2});
  EXPECT_EQ(wan.flow.cap, 100_MBps);
  EXPECT_EQ(wan.latency.ns, 20'000'000);
  ASSERT_EQ(wan.flow.links.size(), 4u);
  EXPECT_EQ(channels.links[wan.flow.links[0]].capacity, 25_GBps);
  EXPECT_EQ(channels.links[wan.flow.links[1]].capacity, 25_GBps);
  EXPECT_EQ(channels.links[wan.flow.links[kPair]].capacity, 1_Gbps);
  EXPECT_EQ(channels.links[wan.flow.links[kPath]].capacity, 1.5_Gbps);
}

// Stages in a, b, a, b: the hops 0 -> 1 and 2 -> 3 share the path from a to b but no pair of nodes;
// 1 -> 2 goes the other way and shares nothing with them.
TEST(Channels, HopsInOneDirectionShareThePath) {
  plan::Plan plan = four_stages();
  std::swap(plan.ranks[1].datacenter, plan.ranks[2].datacenter);
  std::swap(plan.ranks[1].node, plan.ranks[2].node);
  const Channels channels = channels_of(plan);
  const std::vector<uint32_t> first = channels.laws.at({0, 1}).flow.links;
  const std::vector<uint32_t> back = channels.laws.at({1, 2}).flow.links;
  const std::vector<uint32_t> second = channels.laws.at({2, 3}).flow.links;
  EXPECT_NE(first[kPair], second[kPair]);
  EXPECT_EQ(first[kPath], second[kPath]);
  EXPECT_NE(first[kPath], back[kPath]);
}

TEST(Channels, MeasuredLinksReplaceTheFile) {
  plan::Plan plan = four_stages();
  plan.measured_links = {{{"b", "a"}, 21_ms, 130_MBps}};
  const Channels channels = channels_of(plan);
  const ChannelLaw& wan = channels.laws.at({1, 2});
  EXPECT_EQ(wan.flow.cap, 130_MBps);
  EXPECT_EQ(wan.latency.ns, 21'000'000);
  EXPECT_EQ(channels.links[wan.flow.links[kPair]].capacity, 130_MBps);
}

TEST(Channels, ImaginedTransfersAreFixedOccupancies) {
  plan::Plan plan = four_stages();
  plan.cost_source = plan::CostSource::kStageTimes;
  plan.wan_transfer = 2_ms;
  const Channels channels = channels_of(plan);
  EXPECT_EQ(channels.laws.at({1, 2}).occupancy, SimDuration{2'000'000});
  EXPECT_EQ(channels.laws.at({1, 2}).latency.ns, 0);
  EXPECT_EQ(channels.laws.at({0, 1}).occupancy, SimDuration{0});
}

}  // namespace
}  // namespace tombolo::sim
