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
    const RankPrograms workload = TRY(make_workload(graphs, groups, topology, settings));
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

// 1000 ns of computing beside an all-reduce of 6 * (100 + 100). ASTRA-sim reports what both took
// less the finish; of ranks that use the host it reports nothing.
TEST(AstraMachine, KnowsForHowLongARankComputesAndCommunicates) {
  RingSystem system;
  const auto overlap = [&](graph::Graph graph) {
    const auto answer = system.run({std::move(graph)});
    EXPECT_TRUE(answer) << answer.error().text();
    return answer ? answer->rank(0).overlap() : std::nullopt;
  };
  EXPECT_EQ(overlap({0, {compute(0, 1000), all_reduce(1, 400)}}), SimDuration{1000});
  EXPECT_EQ(overlap({0, {compute(0, 1000), all_reduce(1, 400, {0})}}), SimDuration{0});
  EXPECT_EQ(overlap({0, {compute(0, 1000)}}), std::nullopt);
  Node host = compute(2, 30);
  host.is_cpu_op = true;
  EXPECT_EQ(overlap({0, {compute(0, 1000), all_reduce(1, 400), host}}), std::nullopt);
}

// What has come before it is asked for is received in no time, which is said all the same.
TEST(AstraMachine, KnowsThatARankCommunicatedInNoTime) {
  const auto answer =
      RingSystem().run({{0, {message(0, NodeType::kSend, 1, 100)}},
                        {1, {compute(0, 5000), message(1, NodeType::kReceive, 0, 100, {0})}},
                        {2, {}},
                        {3, {}}});
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_TRUE(answer->rank(1).communicates);
  EXPECT_EQ(answer->rank(1).communication.ns, 0);
  EXPECT_FALSE(answer->rank(0).uses_accelerator);
  EXPECT_FALSE(answer->rank(2).communicates);
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

graph::Node all_gather(int64_t id, int64_t bytes, const char* group,
                       std::vector<int64_t> after = {}) {
  graph::Node node = all_reduce(id, bytes, std::move(after));
  node.collective = CollectiveType::kAllGather;
  node.details.edit().pg_name = group;
  return node;
}

// Of two queues rank 1 takes the first for group 1 and the second, which goes the other way round,
// for group 2, where rank 2 takes its first. Two are neighbours either way. Group 1: 10 + 200 + 10.
// Rank 1 finds rank 2's message there when its own leaves at 230, and rank 2 has that at 430.
// ASTRA-sim 518bd513 takes the same cycles.
TEST(AstraMachine, PairsMayMeetInQueuesOfDifferentDirections) {
  RingSystem system;
  system.topology = *network::Topology::create({{network::Block::kRing, 3, 1e9 / (1 << 30), 100}});
  system.groups = {{"1", {0, 1}}, {"2", {1, 2}}};
  MachineOptions options;
  options.queues_per_dimension = 2;
  EXPECT_EQ(finishes(system.run({{0, {all_gather(0, 100, "1")}},
                                 {1, {all_gather(0, 100, "1"), all_gather(1, 100, "2", {0})}},
                                 {2, {all_gather(1, 100, "2")}}},
                                options)),
            (std::vector<int64_t>{220, 240, 440}));
}

// Six gather with those at distance 3 and then 1: 10 + 200 + 10 + 300 + 10. So where rank 2 begins
// at 1000, ranks 0 and 1 hear nothing of it and are over before. Rank 2 finds all there, at 1010
// and 1020; its two messages are with rank 5 at 1210 and with rank 3 at 1320. Rank 5's second
// leaves at 1220 and is with rank 4 at 1520. ASTRA-sim 518bd513 takes the same cycles.
TEST(AstraMachine, SixGatherByHalves) {
  RingSystem system;
  system.topology =
      *network::Topology::create({{network::Block::kFullyConnected, 8, 1e9 / (1 << 30), 100}});
  system.settings.algorithms[CollectiveType::kAllGather] = {
      *network::parse_algorithm("oneHalvingDoubling")};
  system.groups = {{"1", {0, 1, 2, 3, 4, 5}}};
  graph::Graphs graphs;
  for (int32_t r = 0; r < 8; ++r) {
    graphs.push_back({r, {}});
    if (r < 6) graphs.back().nodes = {all_gather(1, 100, "1")};
  }
  EXPECT_EQ(finishes(system.run(graphs)),
            (std::vector<int64_t>{530, 530, 530, 530, 530, 530, 0, 0}));
  graphs[2].nodes = {compute(0, 1000), all_gather(1, 100, "1", {0})};
  EXPECT_EQ(finishes(system.run(graphs)),
            (std::vector<int64_t>{530, 530, 1030, 1330, 1530, 1230, 0, 0}));
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

// An all-gather of 100 bytes between two NPUs, of which rank 0 begins at 10,000; the bus takes 10.
// Rank 1's request has been there since 8,302. At 10,010 rank 0 offers its message and asks for the
// other's; the request takes the link first, though the message could leave at once, and is with
// rank 1 at 18,302, whose message is back at 18,502. Rank 0's message leaves at 18,202, behind the
// request, and is there at 18,402. ASTRA-sim 518bd513 takes 18,512 and 18,412 cycles.
TEST(AstraMachine, WithARendezvousTheOwnRequestLeavesBeforeAMessageThatWasAskedFor) {
  RingSystem system;
  system.topology =
      *network::Topology::create({{network::Block::kFullyConnected, 2, 1e9 / (1 << 30), 100}});
  system.settings.endpoint_delay = 10;
  graph::Graphs graphs = {{0, {compute(0, 10000), all_reduce(1, 100, {0})}},
                          {1, {all_reduce(1, 100)}}};
  for (graph::Graph& graph : graphs) graph.nodes.back().collective = CollectiveType::kAllGather;
  MachineOptions options;
  options.rendezvous = true;
  options.law = NetworkLaw::kCongestion;
  EXPECT_EQ(finishes(system.run(graphs, options)), (std::vector<int64_t>{18512, 18412}));
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
  const RankPrograms workload = *make_workload(graphs, {}, system.topology, system.settings);
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
  const RankPrograms lonely = *make_workload({2}, graph_of, {}, system.topology, system.settings);
  EXPECT_DEATH((void)AstraMachine(system.topology, system.settings, lonely).run(),
               "rank 0 is NPU 0, which has no program");
}

// A Program that says of node 1 that it waits for one node, and is waited for by two edges.
TEST(AstraMachine, EdgesAreAsManyAsDependencies) {
  const RingSystem system;
  Program program;
  program.nodes = {{.id = 4, .children = 2}, {.id = 6, .dependencies = 1}};
  program.children = {1, 1};
  RankPrograms workload;
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
