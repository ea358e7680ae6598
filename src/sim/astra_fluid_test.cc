// The law `fluid`, against closed forms.
#include <gtest/gtest.h>

#include "base/random.h"
#include "sim/astra_run.h"

namespace tombolo::sim {
namespace {

using graph::CollectiveType;
using graph::Graphs;
using graph::Node;
using graph::NodeType;
using network::Block;

constexpr double kOneByteAnNs = 1e9 / (1 << 30);

// Four NPUs on a ring of 1 byte a nanosecond and 100 ns; no bus delay, no cost of reductions.
struct System {
  std::vector<network::Dimension> dimensions{{Block::kRing, 4, kOneByteAnNs, 100}};
  SystemSettings settings;
  System() {
    settings.endpoint_delay = 0;
    settings.algorithms[CollectiveType::kAllReduce] = {*network::parse_algorithm("ring")};
  }
  Result<AstraAnswer> run(const Graphs& graphs, NetworkLaw law = NetworkLaw::kFluid) const {
    const network::Topology topology = TRY(network::Topology::create(dimensions));
    const Workload workload = TRY(make_workload(graphs, {}, topology, settings));
    MachineOptions machine;
    machine.law = law;
    return run_astra(topology, settings, workload, machine, true);
  }
};

Node message(int64_t id, NodeType type, int32_t peer, int64_t bytes) {
  Node node;
  node.id = id;
  node.type = type;
  node.comm_peer = peer;
  node.comm_size = bytes;
  return node;
}

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

Graphs all_reduce(int64_t bytes) {
  Node node;
  node.type = NodeType::kCollective;
  node.comm_size = bytes;
  return {{0, {node}}};
}

std::vector<int64_t> finishes(const Result<AstraAnswer>& answer) {
  std::vector<int64_t> out;
  if (!answer) ADD_FAILURE() << answer.error().text();
  for (int32_t r = 0; answer && r < answer->npus; ++r) out.push_back(answer->rank(r).finish.ns);
  return out;
}

TEST(AstraFluid, OneMessageTakesItsLatencyAndItsBytesOnce) {
  // Two hops: 2 * 100 + 1000. `congestion` stores it on the way: 2 * (100 + 1000).
  const Graphs graphs = transfers(4, {{0, 2, 1000}});
  EXPECT_EQ(finishes(System().run(graphs)), (std::vector<int64_t>{1200, 0, 1200, 0}));
  EXPECT_EQ(finishes(System().run(graphs, NetworkLaw::kCongestion)),
            (std::vector<int64_t>{2200, 0, 2200, 0}));
}

TEST(AstraFluid, TwoMessagesHalveTheLinkThatTheyShare) {
  // Both cross the link from 1 to 2 and have half of it: 2000, and two or one latencies.
  EXPECT_EQ(finishes(System().run(transfers(4, {{0, 2, 1000}, {1, 2, 1000}}))),
            (std::vector<int64_t>{2200, 2100, 2200, 0}));
}

TEST(AstraFluid, WhoeverStaysHasTheLinkToItself) {
  // Half each until the 500 have left at 1000; the other 500 of 1000 leave by 1500.
  EXPECT_EQ(finishes(System().run(transfers(4, {{0, 2, 500}, {1, 2, 1000}}))),
            (std::vector<int64_t>{1200, 1600, 1600, 0}));
}

TEST(AstraFluid, DirectionsOfALinkDoNotShare) {
  EXPECT_EQ(finishes(System().run(transfers(4, {{0, 1, 1000}, {1, 0, 1000}}))),
            (std::vector<int64_t>{1100, 1100, 0, 0}));
}

TEST(AstraFluid, ASwitchIsCutThroughAndSharedDownwards) {
  // 1 and 2 send to 0: its link from the switch is shared. Two hops: 200 + 2000.
  System system;
  system.dimensions[0].block = Block::kSwitch;
  EXPECT_EQ(finishes(system.run(transfers(4, {{1, 0, 1000}, {2, 0, 1000}}))),
            (std::vector<int64_t>{2200, 2200, 2200, 0}));
}

TEST(AstraFluid, AQuietRingTakesItsClosedForm) {
  // 2 (n-1) messages of S / n, one after the other: 2 * 3 * (100 + 400 / 4).
  EXPECT_EQ(finishes(System().run(all_reduce(400))), std::vector<int64_t>(4, 1200));
  // With bus delays and reductions it is what the law `analytical` says, to the nanosecond: no two
  // messages meet, and 2^27 bytes take whole nanoseconds.
  System system;
  system.dimensions = {{Block::kRing, 8, 50, 500}};
  system.settings.endpoint_delay = 10;
  system.settings.memory_bandwidth = 1600;
  EXPECT_EQ(finishes(system.run(all_reduce(1 << 30))),
            finishes(system.run(all_reduce(1 << 30), NetworkLaw::kAnalytical)));
}

// What the law `analytical` gets wrong without a warning.
TEST(AstraFluid, ActiveChunksShareALinkInsteadOfMultiplyingIt) {
  System system;
  system.settings.splits = 4;
  system.settings.active_chunks = 4;
  // Four chunks of 100 bytes, 25 a message, four messages on a link: 2 * 3 * (100 + 4 * 25).
  EXPECT_EQ(finishes(system.run(all_reduce(400))), std::vector<int64_t>(4, 1200));
  // Each as if alone: 2 * 3 * (100 + 25), with links of four times their bandwidth.
  EXPECT_EQ(finishes(system.run(all_reduce(400), NetworkLaw::kAnalytical)),
            std::vector<int64_t>(4, 750));
}

// The same traffic, with every rank called by its neighbour's number: every rank takes the time
// that its neighbour took.
TEST(AstraFluid, AnswersDoNotHangOnTheNumbersOfRanks) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    System system;
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

}  // namespace
}  // namespace tombolo::sim
