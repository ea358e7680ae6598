// The law `fluid`, against closed forms.
#include <gtest/gtest.h>

#include "base/random.h"
#include "predict/astra/fluid_links.h"
#include "support/astra_test_graphs.h"

namespace tombolo::astra {
namespace {

using graph::CollectiveType;
using graph::Graphs;
using graph::Node;
using graph::NodeType;
using network::Block;

constexpr double kOneByteAnNs = 1e9 / (1 << 30);

// Four NPUs on a ring of 1 byte a nanosecond and 100 ns; no bus delay, no cost of reductions.
struct FluidSystem {
  std::vector<network::Dimension> dimensions{{Block::kRing, 4, kOneByteAnNs, 100}};
  SystemSettings settings;
  FluidSystem() {
    settings.endpoint_delay = 0;
    settings.algorithms[CollectiveType::kAllReduce] = {*network::parse_algorithm("ring")};
  }
  Result<AstraAnswer> run(const Graphs& graphs, NetworkLaw law = NetworkLaw::kFluid) const {
    const network::Topology topology = TRY(network::Topology::create(dimensions));
    const RankPrograms workload = TRY(make_workload(graphs, {}, topology, settings));
    MachineOptions machine;
    machine.law = law;
    return run_astra(topology, settings, workload, machine, true);
  }
};

struct Transfer {
  int32_t from, to;
  int64_t bytes;
  int64_t after = 0;  // ns
};

// Each on its own: a rank sends one of them at most.
Graphs transfers(int32_t ranks, const std::vector<Transfer>& all) {
  Graphs graphs(static_cast<size_t>(ranks));
  for (int32_t r = 0; r < ranks; ++r) graphs[static_cast<size_t>(r)].rank = r;
  for (const Transfer& t : all) {
    std::vector<Node>& nodes = graphs[static_cast<size_t>(t.from)].nodes;
    nodes.push_back(message(1, NodeType::kSend, t.to, t.bytes));
    if (t.after == 0) continue;
    nodes.insert(nodes.begin(), Node{});
    nodes[0].duration = SimDuration{t.after};
    nodes[1].data_deps = {0};
  }
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<Node>& nodes = graphs[static_cast<size_t>(all[i].to)].nodes;
    nodes.push_back(
        message(static_cast<int64_t>(2 + i), NodeType::kReceive, all[i].from, all[i].bytes));
  }
  return graphs;
}

Graphs all_reduce_of_four(int64_t bytes) {
  Node node;
  node.type = NodeType::kCollective;
  node.comm_size = bytes;
  return {{0, {node}}};
}

TEST(AstraFluid, OneMessageTakesItsLatencyAndItsBytesOnce) {
  // Two hops: 2 * 100 + 1000. `congestion` stores it on the way: 2 * (100 + 1000).
  const Graphs graphs = transfers(4, {{0, 2, 1000}});
  EXPECT_EQ(finishes(FluidSystem().run(graphs)), (std::vector<int64_t>{1200, 0, 1200, 0}));
  EXPECT_EQ(finishes(FluidSystem().run(graphs, NetworkLaw::kCongestion)),
            (std::vector<int64_t>{2200, 0, 2200, 0}));
}

TEST(AstraFluid, TwoMessagesHalveTheLinkThatTheyShare) {
  // Both cross the link from 1 to 2 and have half of it: 2000, and two or one latencies.
  EXPECT_EQ(finishes(FluidSystem().run(transfers(4, {{0, 2, 1000}, {1, 2, 1000}}))),
            (std::vector<int64_t>{2200, 2100, 2200, 0}));
}

TEST(AstraFluid, WhoeverStaysHasTheLinkToItself) {
  // Half each until the 500 have left at 1000; the other 500 of 1000 leave by 1500.
  EXPECT_EQ(finishes(FluidSystem().run(transfers(4, {{0, 2, 500}, {1, 2, 1000}}))),
            (std::vector<int64_t>{1200, 1600, 1600, 0}));
}

TEST(AstraFluid, DirectionsOfALinkDoNotShare) {
  EXPECT_EQ(finishes(FluidSystem().run(transfers(4, {{0, 1, 1000}, {1, 0, 1000}}))),
            (std::vector<int64_t>{1100, 1100, 0, 0}));
}

TEST(AstraFluid, ASwitchIsCutThroughAndSharedDownwards) {
  // 1 and 2 send to 0: its link from the switch is shared. Two hops: 200 + 2000.
  FluidSystem system;
  system.dimensions[0].block = Block::kSwitch;
  EXPECT_EQ(finishes(system.run(transfers(4, {{1, 0, 1000}, {2, 0, 1000}}))),
            (std::vector<int64_t>{2200, 2200, 2200, 0}));
}

TEST(AstraFluid, AQuietRingTakesItsClosedForm) {
  // 2 (n-1) messages of S / n, one after the other: 2 * 3 * (100 + 400 / 4).
  EXPECT_EQ(finishes(FluidSystem().run(all_reduce_of_four(400))), std::vector<int64_t>(4, 1200));
  // With bus delays and reductions it is what the law `analytical` says, to the nanosecond: no two
  // messages meet, and 2^27 bytes take whole nanoseconds.
  FluidSystem system;
  system.dimensions = {{Block::kRing, 8, 50, 500}};
  system.settings.endpoint_delay = 10;
  system.settings.memory_bandwidth = 1600;
  EXPECT_EQ(finishes(system.run(all_reduce_of_four(1 << 30))),
            finishes(system.run(all_reduce_of_four(1 << 30), NetworkLaw::kAnalytical)));
}

// What the law `analytical` gets wrong without a warning.
TEST(AstraFluid, ActiveChunksShareALinkInsteadOfMultiplyingIt) {
  FluidSystem system;
  system.settings.splits = 4;
  system.settings.active_chunks = 4;
  // Four chunks of 100 bytes, 25 a message, four messages on a link: 2 * 3 * (100 + 4 * 25).
  EXPECT_EQ(finishes(system.run(all_reduce_of_four(400))), std::vector<int64_t>(4, 1200));
  // Each as if alone: 2 * 3 * (100 + 25), with links of four times their bandwidth.
  EXPECT_EQ(finishes(system.run(all_reduce_of_four(400), NetworkLaw::kAnalytical)),
            std::vector<int64_t>(4, 750));
}

// n = 4 NPUs in each of two datacenters. Reduce-scatter at home, all-reduce of S / n between them
// in two messages, all-gather at home; the n messages of a direction share the path P, each under a
// cap c:
//   2 (n-1) (L + S / (n B)) + 2 (W + S / (2 n) / min(c, P / n))
TEST(AstraFluid, AnAllReduceOverTwoDatacentersTakesItsClosedForm) {
  FluidSystem system;
  system.settings.all_reduce_shape = AllReduceShape::kLocalBandwidthAware;
  system.settings.algorithms[CollectiveType::kAllReduce].push_back(
      *network::parse_algorithm("ring"));
  const auto with_wan = [&](double path, double cap) {
    system.dimensions.resize(1);
    system.dimensions.push_back(
        {Block::kWan, 2, path * kOneByteAnNs, 20'000'000, cap * kOneByteAnNs});
    return finishes(system.run(all_reduce_of_four(800)));
  };
  const int64_t home = 2 * 3 * (100 + 200);
  // The cap of 0.1 bytes a nanosecond holds each, where the path has 0.25: 100 / 0.1.
  EXPECT_EQ(with_wan(1, 0.1), std::vector<int64_t>(8, home + 2 * (20'000'000 + 1000)));
  // The path has 0.05 for each: 100 / 0.05.
  EXPECT_EQ(with_wan(0.2, 0.1), std::vector<int64_t>(8, home + 2 * (20'000'000 + 2000)));
  // Without a cap: 100 / 0.25.
  EXPECT_EQ(with_wan(1, 0), std::vector<int64_t>(8, home + 2 * (20'000'000 + 400)));
}

TEST(AstraFluid, AMessageToAnotherPlaceElsewhereTakesRingAndPath) {
  // From (0, 0) to (1, 1): one link of the ring at 1 byte a ns, then the path at 0.1. It has 0.1 on
  // both, and leaves 0.9 of the ring's link to the message from (0, 0)'s neighbour 3 to 1.
  FluidSystem system;
  system.dimensions.push_back({Block::kWan, 2, 0.1 * kOneByteAnNs, 20'000'000});
  EXPECT_EQ(finishes(system.run(transfers(8, {{0, 5, 1000}, {3, 1, 900}}))),
            (std::vector<int64_t>{20'010'100, 1200, 0, 1200, 0, 20'010'100, 0, 0}));
}

TEST(AstraFluid, OtherLawsRefuseAWan) {
  FluidSystem system;
  system.dimensions.push_back({Block::kWan, 2, 1, 20'000'000});
  for (const NetworkLaw law : {NetworkLaw::kAnalytical, NetworkLaw::kCongestion}) {
    const auto answer = system.run(transfers(8, {{0, 4, 1000}}), law);
    ASSERT_FALSE(answer);
    EXPECT_NE(answer.error().text().find("--law=fluid"), std::string::npos);
  }
}

// The same traffic, with every rank called by its neighbour's number: every rank takes the time
// that its neighbour took.
TEST(AstraFluid, AnswersDoNotHangOnTheNumbersOfRanks) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    FluidSystem system;
    system.dimensions = {{Block::kRing, 9, kOneByteAnNs * 3, 100}};
    std::vector<Transfer> original, turned;
    for (int32_t from = 0; from < 9; ++from) {
      const auto to = static_cast<int32_t>((from + 1 + random.below(8)) % 9);
      original.push_back({from, to, static_cast<int64_t>(1 + random.below(5000)),
                          static_cast<int64_t>(random.below(3) * 500)});
      turned.push_back(
          {(from + 1) % 9, (to + 1) % 9, original.back().bytes, original.back().after});
    }
    const auto first = system.run(transfers(9, original));
    const auto again = system.run(transfers(9, original));
    ASSERT_TRUE(first && again);
    EXPECT_EQ(first->report.fingerprint, again->report.fingerprint);
    std::vector<int64_t> expected = finishes(first);
    std::rotate(expected.begin(), expected.end() - 1, expected.end());
    EXPECT_EQ(finishes(system.run(transfers(9, turned))), expected);
  }
}

TEST(FluidLinks, MessagesGoSomewhere) {
  const auto topology = *network::Topology::create({{network::Block::kRing, 4, 50, 500}});
  FluidLinks links(topology);
  EXPECT_DEATH(links.start(SimTime{0}, 0, 3, 3, 100, {}), "NPU 3 sends to itself");
}

}  // namespace
}  // namespace tombolo::astra
