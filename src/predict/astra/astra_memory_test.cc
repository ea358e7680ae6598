// Loads and stores of remote memory: who waits for whom, and what goes on meanwhile.
#include <gtest/gtest.h>

#include "support/astra_test_graphs.h"

namespace tombolo::astra {
namespace {

using graph::Node;
using graph::NodeType;

// Four NPUs. An access of b bytes takes 100 + b ns.
struct MemorySystem {
  network::Topology topology =
      *network::Topology::create({{network::Block::kRing, 4, 1e9 / (1 << 30), 100}});
  SystemSettings settings;
  network::ExpandedMemory memory;
  explicit MemorySystem(network::MemoryExpansion type, int32_t npus_per_node = 2)
      : memory(*network::ExpandedMemory::create({type, 4 / npus_per_node, npus_per_node, 100, 1},
                                                4)) {}
  // A pool of one level of 4 links of 1 byte a nanosecond: 100 ns, and one for each byte of an NPU.
  static MemorySystem with_pool() {
    MemorySystem out(network::MemoryExpansion::kNone);
    network::MemoryExpansionFile file;
    file.pool.emplace();
    file.pool->shape = network::SwitchedPool{1, {{"links", 4, 1, 1_GBps}}};
    file.pool->access.latency = 100_ns;
    out.memory = *network::ExpandedMemory::create(file, 4);
    return out;
  }
  Result<AstraAnswer> run(const graph::Graphs& graphs) const {
    const RankPrograms workload = TRY(make_workload(graphs, {}, topology, settings));
    MachineOptions machine;
    machine.memory = &memory;
    return run_astra(topology, settings, workload, machine, true);
  }
};

Node access(int64_t id, NodeType type, int64_t bytes, std::vector<int64_t> after = {}) {
  Node node = compute(id, 0, std::move(after));
  node.type = type;
  node.tensor_size = bytes;
  return node;
}
Node load(int64_t id, int64_t bytes, std::vector<int64_t> after = {}) {
  return access(id, NodeType::kMemoryLoad, bytes, std::move(after));
}
Node store(int64_t id, int64_t bytes, std::vector<int64_t> after = {}) {
  return access(id, NodeType::kMemoryStore, bytes, std::move(after));
}

TEST(AstraMemory, OfEachNpuIsItsOwnSoThatRanksAreOne) {
  const auto answer = MemorySystem(network::MemoryExpansion::kPerNpu)
                          .run({{0, {load(0, 900), compute(1, 50, {0}), store(2, 400, {1})}}});
  EXPECT_EQ(finishes(answer), std::vector<int64_t>(4, 1000 + 50 + 500));
  EXPECT_TRUE(answer->collapsed());
  EXPECT_EQ(answer->rank(2).memory.ns, 1500);
  EXPECT_EQ(answer->rank(2).communication.ns, 0);
}

TEST(AstraMemory, APoolServesOneAfterTheOther) {
  // All ask at once, in the order of their ranks: 1000 ns each. Waiting counts as remote memory.
  const auto answer = MemorySystem(network::MemoryExpansion::kPool).run({{0, {load(0, 900)}}});
  EXPECT_EQ(finishes(answer), (std::vector<int64_t>{1000, 2000, 3000, 4000}));
  EXPECT_FALSE(answer->collapsed());
  EXPECT_EQ(answer->rank(3).memory.ns, 4000);
}

TEST(AstraMemory, APoolServesWhoCameFirst) {
  // Rank 3 asks at 0, rank 1 at 10, rank 0 at 20; rank 2 asks again when it has been served, and
  // goes behind all of them.
  const graph::Graphs graphs = {{0, {compute(0, 20), load(1, 100, {0})}},
                                {1, {compute(0, 10), load(1, 200, {0})}},
                                {2, {load(0, 300), load(1, 0, {0})}},
                                {3, {compute(0, 5), load(1, 400, {0})}}};
  // 2: 400. 3: + 500. 1: + 300. 0: + 200. 2: + 100.
  EXPECT_EQ(finishes(MemorySystem(network::MemoryExpansion::kPool).run(graphs)),
            (std::vector<int64_t>{1400, 1200, 1500, 900}));
}

TEST(AstraMemory, ANodeIsAPoolOfItsNpus) {
  EXPECT_EQ(finishes(MemorySystem(network::MemoryExpansion::kPerNode).run({{0, {load(0, 900)}}})),
            (std::vector<int64_t>{1000, 2000, 1000, 2000}));
}

// An all-to-all of 400 bytes takes 10 + 100 + 200 + 10 between neighbours and 10 + 2 * 100 + 200 +
// 10 across the switch, and is over for all at 740. Who sends first hears last, in both dimensions:
// rank 3 is the first to ask for memory, rank 0 the last. The cycles are ASTRA-sim 518bd513's.
TEST(AstraMemory, WhoLeavesACollectiveFirstIsServedFirst) {
  graph::Graph graph{0, {all_reduce(0, 400), load(1, 900, {0})}};
  graph.nodes[0].collective = graph::CollectiveType::kAllToAll;
  const auto served = [&](network::MemoryExpansion type) {
    MemorySystem system(type);
    const double byte_a_ns = 1e9 / (1 << 30);
    system.topology = *network::Topology::create(
        {{network::Block::kRing, 2, byte_a_ns, 100}, {network::Block::kSwitch, 2, byte_a_ns, 100}});
    system.settings.endpoint_delay = 10;
    const auto ring = *network::parse_algorithm("ring");
    system.settings.algorithms[graph::CollectiveType::kAllToAll] = {ring, ring};
    return finishes(system.run({graph}));
  };
  EXPECT_EQ(served(network::MemoryExpansion::kPool),
            (std::vector<int64_t>{4740, 3740, 2740, 1740}));
  EXPECT_EQ(served(network::MemoryExpansion::kPerNode),
            (std::vector<int64_t>{2740, 1740, 2740, 1740}));
}

TEST(AstraMemory, AnAccessLeavesTheAcceleratorAloneAndTakesTheCommunicator) {
  // Two loads of 1000 follow each other, a computation of 1500 goes on meanwhile; an all-reduce
  // that could start waits for the communicator: 2000 + 6 messages of 100 bytes and 100 ns.
  MemorySystem system(network::MemoryExpansion::kPerNpu);
  system.settings.endpoint_delay = 0;
  system.settings.algorithms[graph::CollectiveType::kAllReduce] = {
      *network::parse_algorithm("ring")};
  Node sum = all_reduce(3, 400);
  const auto answer =
      system.run({{0, {load(0, 900), load(1, 900), compute(2, 1500), std::move(sum)}}});
  EXPECT_EQ(finishes(answer), std::vector<int64_t>(4, 2000 + 6 * 200));
  EXPECT_EQ(answer->rank(0).memory.ns, 2000);
  EXPECT_EQ(answer->rank(0).communication.ns, 1200);
  EXPECT_EQ(answer->rank(0).accelerator.ns, 1500);
}

TEST(AstraMemory, APoolOfThePaperMovesAllAtOnce) {
  // Rank 2 asks last, at 300; all have their 900 bytes 1000 ns later, and compute.
  graph::Graphs graphs;
  for (int32_t r = 0; r < 4; ++r) {
    graphs.push_back({r, {compute(0, r == 2 ? 300 : 100), load(1, 900, {0}), compute(2, 7, {1})}});
  }
  const auto answer = MemorySystem::with_pool().run(graphs);
  EXPECT_EQ(finishes(answer), std::vector<int64_t>(4, 300 + 1000 + 7));
  EXPECT_EQ(answer->rank(0).memory.ns, 1200);
  EXPECT_EQ(answer->rank(2).memory.ns, 1000);
}

TEST(AstraMemory, APoolOfThePaperServesTransfersInTurn) {
  // One on the host and one beside it are asked for at once: 1000, then 500 more. Equal ranks are
  // one.
  Node from_host = load(0, 900);
  from_host.is_cpu_op = true;
  const auto answer = MemorySystem::with_pool().run({{0, {std::move(from_host), store(1, 400)}}});
  EXPECT_EQ(finishes(answer), std::vector<int64_t>(4, 1500));
  EXPECT_TRUE(answer->collapsed());
}

TEST(AstraMemory, APoolOfThePaperRefusesUnequalTransfers) {
  graph::Graphs graphs;
  for (int32_t r = 0; r < 4; ++r) graphs.push_back({r, {load(6, r == 3 ? 800 : 900)}});
  const auto unequal = MemorySystem::with_pool().run(graphs);
  ASSERT_FALSE(unequal);
  EXPECT_NE(unequal.error().message.find("900 bytes (node 6 of rank 0) and MEM_LOAD_NODE of 800"),
            std::string::npos)
      << unequal.error().text();
  graphs[3].nodes = {compute(0, 5)};
  const auto missing = MemorySystem::with_pool().run(graphs);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("waits for node 6 (MEM_LOAD_NODE)"), std::string::npos)
      << missing.error().text();
}

TEST(AstraMemory, IsReplayedWhereAllIs) {
  MemorySystem system(network::MemoryExpansion::kNone);
  system.settings.replay_only = true;
  Node replayed = load(0, 900);
  replayed.duration = SimDuration{70};
  const auto answer = system.run({{0, {replayed}}});
  EXPECT_EQ(finishes(answer), std::vector<int64_t>(4, 70));
  EXPECT_EQ(answer->rank(0).memory.ns, 70);
}

TEST(AstraMemory, SaysWhoAsksInVain) {
  const auto none =
      MemorySystem(network::MemoryExpansion::kNone).run({{0, {compute(4, 1), load(5, 900, {4})}}});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("node 5 of rank 0 (MEM_LOAD_NODE) needs a remote memory"),
            std::string::npos)
      << none.error().text();
  const auto much =
      MemorySystem(network::MemoryExpansion::kPool).run({{0, {load(5, (int64_t{1} << 50) + 1)}}});
  ASSERT_FALSE(much);
  EXPECT_NE(much.error().message.find("at most 2^50"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::astra
