#include <gtest/gtest.h>

#include "support/astra_test_graphs.h"

namespace tombolo::astra {
namespace {

using graph::CollectiveType;
using graph::Node;
using graph::NodeType;

// Four NPUs on a ring of 1 byte a nanosecond and 100 ns; no bus delay, no cost of reductions.
struct RingSystem {
  network::Topology topology =
      *network::Topology::create({{network::Block::kRing, 4, 1e9 / (1 << 30), 100}});
  SystemSettings settings;
  chakra::CommGroups groups;
  RingSystem() {
    settings.endpoint_delay = 0;
    for (const CollectiveType kind : {CollectiveType::kAllReduce, CollectiveType::kAllGather}) {
      settings.algorithms[kind] = {*network::parse_algorithm("ring")};
    }
  }
  Result<AstraAnswer> run(const graph::Graphs& graphs, const MachineOptions& machine = {}) const {
    const Workload workload = TRY(make_workload(graphs, groups, topology, settings));
    return run_astra(topology, settings, workload, machine, true);
  }
};

TEST(AstraMachine, ComputesOneThingAtATimeLowestIdFirst) {
  // Accelerator: 100 + 50. The host has a core of its own, and node 2 waits for both.
  Node host = compute(1, 30);
  host.is_cpu_op = true;
  EXPECT_EQ(finishes(RingSystem().run({{0, {compute(0, 100), host, compute(2, 50, {0, 1})}}})),
            std::vector<int64_t>(4, 150));
}

TEST(AstraMachine, SendsMeetReceivesInEitherOrder) {
  // Rank 0 sends 1000 bytes to rank 1, which asks at once, and 500 to rank 3, which asks late.
  const graph::Graphs graphs = {
      {0, {message(0, NodeType::kSend, 1, 1000), message(1, NodeType::kSend, 3, 500)}},
      {1, {message(0, NodeType::kReceive, 0, 1000)}},
      {2, {}},
      {3, {compute(0, 5000), message(1, NodeType::kReceive, 0, 500, {0})}}};
  // One after the other: 100 + 1000, then 100 + 500.
  EXPECT_EQ(finishes(RingSystem().run(graphs)), (std::vector<int64_t>{1700, 1100, 0, 5000}));
}

TEST(AstraMachine, AStragglerIsWaitedForByAll) {
  graph::Graphs graphs;
  for (int32_t r = 0; r < 4; ++r)
    graphs.push_back({r, {compute(0, r == 2 ? 900 : 100), all_reduce(1, 400, {0})}});
  const auto answer = RingSystem().run(graphs);
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_FALSE(answer->collapsed());
  // What the straggler sends goes round twice less two: 6 messages of 100 bytes, 200 each.
  EXPECT_EQ(answer->finish().ns, 900 + 6 * 200);
}

TEST(AstraMachine, EqualRanksAreOne) {
  const auto answer = RingSystem().run({{0, {compute(0, 100), all_reduce(1, 400, {0})}}});
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_TRUE(answer->collapsed());
  EXPECT_EQ(finishes(answer), std::vector<int64_t>(4, 100 + 6 * 200));
  EXPECT_EQ(answer->rank(3).computing.ns, 100);
  EXPECT_EQ(answer->rank(3).communication.ns, 1200);
}

TEST(AstraMachine, GroupsAreRingsOfTheirOwn) {
  RingSystem system;
  system.groups = {{"1", {0, 1}}, {"2", {2, 3}}, {"3", {0}}};
  graph::Graphs graphs;
  for (int32_t r = 0; r < 4; ++r) {
    graphs.push_back({r, {all_reduce(0, 400)}});
    graphs.back().nodes[0].details.edit().pg_name = r < 2 ? "1" : "2";
  }
  graphs[0].nodes.push_back(all_reduce(1, 400, {0}));  // alone: takes no time
  graphs[0].nodes[1].details.edit().pg_name = "3";
  // Two messages of 200 bytes, and 10 on the bus before each and after the last.
  EXPECT_EQ(finishes(system.run(graphs)), std::vector<int64_t>(4, 2 * 300 + 3 * 10));
}

TEST(AstraMachine, LinksAreSharedUnderCongestionOnly) {
  // Ranks 0 and 1 both send to rank 2, in the same direction: the link from 1 to 2 is shared.
  RingSystem system;
  const graph::Graphs graphs = {
      {0, {message(0, NodeType::kSend, 2, 1000)}},
      {1, {message(0, NodeType::kSend, 2, 1000)}},
      {2, {message(0, NodeType::kReceive, 0, 1000), message(1, NodeType::kReceive, 1, 1000)}},
      {3, {}}};
  EXPECT_EQ(finishes(system.run(graphs)), (std::vector<int64_t>{1200, 1100, 1200, 0}));
  // Stored and forwarded: at rank 1 after 1100, when the link has been free for 100.
  MachineOptions congestion;
  congestion.law = NetworkLaw::kCongestion;
  EXPECT_EQ(finishes(system.run(graphs, congestion)), (std::vector<int64_t>{2200, 1100, 2200, 0}));
}

TEST(AstraMachine, WithARendezvousMessagesWaitForTheirReceiver) {
  // A request of 8192 bytes takes 100 + 8192 from when the receive begins, at 300; then the message
  // 100 + 1000. Rank 2 receives from 3, which sends late, at 20000.
  MachineOptions rendezvous;
  rendezvous.rendezvous = true;
  const graph::Graphs graphs = {
      {0, {message(0, NodeType::kSend, 1, 1000)}},
      {1, {compute(0, 300), message(1, NodeType::kReceive, 0, 1000, {0})}},
      {2, {message(0, NodeType::kReceive, 3, 500)}},
      {3, {compute(0, 20000), message(1, NodeType::kSend, 2, 500, {0})}}};
  EXPECT_EQ(finishes(RingSystem().run(graphs, rendezvous)),
            (std::vector<int64_t>{300 + 8292 + 1100, 300 + 8292 + 1100, 20600, 20600}));
}

TEST(AstraMachine, WithARendezvousEveryMessageOfAPhaseIsAskedFor) {
  // Everyone asks for each of its 6 messages when it sends the one before: 8292 + 200 each.
  MachineOptions rendezvous;
  rendezvous.rendezvous = true;
  const auto answer = RingSystem().run({{0, {all_reduce(0, 400)}}}, rendezvous);
  EXPECT_EQ(finishes(answer), std::vector<int64_t>(4, 6 * (8292 + 200)));
  EXPECT_FALSE(answer->collapsed());
}

TEST(AstraMachine, SaysWhoNeverFinishes) {
  graph::Graphs graphs(4);
  for (int32_t r = 0; r < 4; ++r) graphs[static_cast<size_t>(r)].rank = r;
  graphs[1].nodes = {message(7, NodeType::kReceive, 0, 1000)};
  const auto answer = RingSystem().run(graphs);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().exit_code(), 2);
  EXPECT_NE(answer.error().message.find("1 of 4 ranks never finish; rank 1"), std::string::npos)
      << answer.error().text();
  EXPECT_NE(answer.error().message.find("node 7"), std::string::npos) << answer.error().text();
}

TEST(AstraMachine, SaysWhoDisagreesOnACollective) {
  graph::Graphs graphs;
  for (int32_t r = 0; r < 4; ++r) graphs.push_back({r, {all_reduce(0, r == 3 ? 800 : 400)}});
  const auto answer = RingSystem().run(graphs);
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("disagree"), std::string::npos) << answer.error().text();
}

TEST(AstraMachine, RefusesWhatCannotBeSimulated) {
  const auto error = [](Node node) {
    const auto answer = RingSystem().run({{0, {node}}, {1, {}}, {2, {}}, {3, {}}});
    EXPECT_FALSE(answer);
    return answer ? "" : answer.error().text();
  };
  Node barrier = all_reduce(0, 0);
  barrier.collective = CollectiveType::kBarrier;
  EXPECT_NE(error(barrier).find("BARRIER cannot be simulated"), std::string::npos);
  Node unknown_group = all_reduce(0, 8);
  unknown_group.details.edit().pg_name = "9";
  EXPECT_NE(error(unknown_group).find("group 9 is not declared"), std::string::npos);
  EXPECT_NE(error(message(0, NodeType::kSend, 9, 8)).find("not one of 4"), std::string::npos);
  EXPECT_NE(error(message(0, NodeType::kSend, 0, 8)).find("to itself"), std::string::npos);
  Node load = compute(0, 1);
  load.type = NodeType::kMemoryLoad;
  EXPECT_NE(error(load).find("remote memory"), std::string::npos);
  Node reduce_scatter = all_reduce(0, 8);
  reduce_scatter.collective = CollectiveType::kReduceScatter;
  const auto answer = RingSystem().run({{0, {reduce_scatter}}});
  EXPECT_NE(answer.error().text().find("names no algorithm for REDUCE_SCATTER"), std::string::npos);
}

TEST(AstraMachine, CallersKeepTheirPromises) {
  RingSystem system;
  const graph::Graphs graphs = {{0, {compute(0, 100), compute(1, 50, {0})}}};
  const Workload workload = *make_workload(graphs, {}, system.topology, system.settings);
  AstraMachine machine(system.topology, system.settings, workload);
  ASSERT_TRUE(machine.run());
  EXPECT_DEATH((void)machine.run(), "a machine runs once");

  const auto answer = system.run(graphs);
  EXPECT_DEATH(answer->rank(4), "rank 4 of 4");

  const RankClasses few{{0, 0}, {0}, {}};
  EXPECT_DEATH(AstraMachine(system.topology, system.settings, workload, {.classes = &few}),
               "classes of 2 ranks for 4");
  SystemSettings idle = system.settings;
  idle.active_chunks = 0;
  EXPECT_DEATH(AstraMachine(system.topology, idle, workload), "0 of 1 chunks at work");
  const auto graph_of = [&](int32_t) -> Result<graph::Graph> { return graphs[0]; };
  EXPECT_DEATH((void)make_workload({4}, graph_of, {}, system.topology, system.settings),
               "rank 4 of 4 NPUs");
  const Workload lonely = *make_workload({2}, graph_of, {}, system.topology, system.settings);
  EXPECT_DEATH((void)AstraMachine(system.topology, system.settings, lonely).run(),
               "rank 0 is NPU 0, which has no program");
}

// A Program that says of node 1 that it waits for one node, and is waited for by two edges.
TEST(AstraMachine, EdgesAreAsManyAsDependencies) {
  const RingSystem system;
  Program program;
  program.nodes = {{.id = 4, .children = 2}, {.id = 6, .dependencies = 1}};
  program.children = {1, 1};
  Workload workload;
  workload.programs.assign(4, &program);
  EXPECT_DEATH((void)AstraMachine(system.topology, system.settings, workload).run(),
               "node 6 of rank 0 waits for nothing, and node 4 is done");
}

TEST(Alarms, BelongToARank) {
  engine::EventQueue queue;
  Alarms alarms(queue, 0, 2);
  EXPECT_DEATH(alarms.set(2, SimTime{5}, {}), "an alarm for rank 2 of 2");
  EXPECT_DEATH(alarms.work_off(0, [](int32_t, const Alarm&) {}), "list 0 of 0");
}

TEST(CollectivePlanner, CallersKeepTheirPromises) {
  const RingSystem system;
  CollectivePlanner planner(system.topology, system.settings, 1);
  Rotation rotation = planner.no_rotation();
  EXPECT_DEATH((void)planner.plan({.bytes = -8}, rotation), "-8 bytes among 0 NPUs");
  rotation.next.clear();
  EXPECT_DEATH((void)planner.plan({.bytes = 8}, rotation), "a rotation through 0 of 1 dimensions");
}

}  // namespace
}  // namespace tombolo::astra
