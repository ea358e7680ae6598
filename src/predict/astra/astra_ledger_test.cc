// What a run tells of itself: exposed time, use of the network, and a Trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "predict/astra/astra_recorder.h"
#include "predict/astra/astra_run.h"

namespace tombolo::astra {
namespace {

using graph::CollectiveType;
using graph::Node;
using graph::NodeType;
using testing::ElementsAre;
using trace::ExposedTime;
using trace::Lane;

// Rings of 1 byte a nanosecond and no latency; no bus delay, no cost of reductions.
struct Watched {
  std::vector<int32_t> sizes{4};
  SystemSettings settings;
  AstraLedger ledger;
  AstraRecorder recorder{{.ranks_max = 2}};
  MachineOptions machine;

  Watched() {
    settings.endpoint_delay = 0;
    machine.observers = {&ledger, &recorder};
  }
  trace::Trace run(const graph::Graphs& graphs, bool collapse = true) {
    std::vector<network::Dimension> dimensions;
    for (const int32_t size : sizes) {
      dimensions.push_back({network::Block::kRing, size, 1e9 / (1 << 30), 0});
    }
    settings.algorithms[CollectiveType::kAllReduce].assign(sizes.size(),
                                                           *network::parse_algorithm("ring"));
    const auto topology = *network::Topology::create(dimensions);
    const auto workload = make_workload(graphs, {}, topology, settings, true);
    if (!workload) throw std::runtime_error(workload.error().text());
    const auto answer = run_astra(topology, settings, *workload, machine, collapse);
    if (!answer) throw std::runtime_error(answer.error().text());
    return recorder.take(ledger);
  }
};

Node node(int64_t id, NodeType type, int64_t ns, int64_t bytes, std::vector<int64_t> after = {}) {
  Node out;
  out.id = id;
  out.type = type;
  out.duration = SimDuration{ns};
  out.comm_size = bytes;
  out.data_deps = std::move(after);
  return out;
}

std::vector<std::string> names(const trace::Trace& trace, Lane lane, int32_t rank = 0) {
  std::vector<std::string> out;
  for (const trace::Interval& i : trace.intervals) {
    if (i.lane == lane && i.rank == rank)
      out.push_back(fmt::format("{} {}-{}", to_text(i.origin), i.start.ns, i.end.ns));
  }
  return out;
}

TEST(AstraLedger, CountsEveryInstantOnceForItsFirstCause) {
  // The all-reduce of 400 bytes takes 6 steps of 100 ns: [0, 600). The host works in [0, 500), the
  // accelerator in [0, 200), then node 3 in [600, 650) after the all-reduce.
  Node host = node(2, NodeType::kCompute, 500, 0);
  host.is_cpu_op = true;
  Watched watched;
  watched.run({{0,
                {node(0, NodeType::kCollective, 0, 400), node(1, NodeType::kCompute, 200, 0), host,
                 node(3, NodeType::kCompute, 50, 0, {0})}}});
  ExposedTime expected;
  expected.compute = SimDuration{250};
  expected.host = SimDuration{300};
  expected.communication = SimDuration{100};
  EXPECT_EQ(watched.ledger.exposed(3), expected);
  EXPECT_EQ(watched.ledger.exposed_mean(), expected);
  // Each rank sends 6 times 100 bytes. Its links to both neighbours could carry 2 * 650.
  ASSERT_EQ(watched.ledger.dimensions().size(), 1u);
  const trace::DimensionUse use = watched.ledger.dimensions()[0];
  EXPECT_EQ(use.bytes, 4 * 600);
  EXPECT_EQ(use.bytes_max, 600);
  EXPECT_NEAR(use.busy_mean, 600.0 / (2 * 650), 1e-12);
  EXPECT_EQ(use.label, "0: Ring(4), 0.931323 * 2^30 B/s, 0 ns");
}

TEST(AstraLedger, CountsAReceiveFromWhenItsMessageHasLeft) {
  // Rank 0 computes for 70 ns and then sends 100 bytes to rank 1, next to it, who has asked for
  // them since 0 and computes in [0, 20). Rank 2 asks for what left long ago.
  Node send = node(1, NodeType::kSend, 0, 100, {0});
  Node receive = node(0, NodeType::kReceive, 0, 100);
  send.comm_peer = 1;
  receive.comm_peer = 0;
  Node early = node(2, NodeType::kSend, 0, 30);
  Node late = node(1, NodeType::kReceive, 0, 30, {0});
  early.comm_peer = 2;
  late.comm_peer = 3;
  for (const NetworkLaw law :
       {NetworkLaw::kAnalytical, NetworkLaw::kCongestion, NetworkLaw::kFluid}) {
    Watched watched;
    watched.machine.law = law;
    watched.run({{0, {node(0, NodeType::kCompute, 70, 0), send}},
                 {1, {receive, node(1, NodeType::kCompute, 20, 0)}},
                 {2, {node(0, NodeType::kCompute, 200, 0), late}},
                 {3, {early}}},
                false);
    const ExposedTime waits = watched.ledger.exposed(1);
    EXPECT_EQ(waits.compute.ns, 20);
    EXPECT_EQ(waits.idle.ns, 50);
    EXPECT_EQ(waits.communication.ns, 100);
    EXPECT_EQ(watched.ledger.exposed(2).idle.ns, 0);
    EXPECT_EQ(watched.ledger.exposed(2).total().ns, 200);
  }
}

TEST(AstraLedger, BlamesLocalMemoryForWhatPeakPerformanceDoesNotExplain) {
  // 10^6 operations at 1 TFLOP/s: 1000 ns. On 10^6 bytes at 400 GB/s: 2500 ns.
  Watched watched;
  watched.settings.roofline = true;
  watched.settings.peak_performance = 1;
  watched.settings.memory_bandwidth = 400;
  Node bound = node(0, NodeType::kCompute, 0, 0);
  bound.num_ops = bound.tensor_size = 1'000'000;
  Node quick = bound;  // 10^5 bytes: 250 ns, so that operations decide
  quick.id = 1;
  quick.tensor_size = 100'000;
  watched.run({{0, {bound, quick}}});
  EXPECT_EQ(watched.ledger.exposed(0).compute.ns, 2000);
  EXPECT_EQ(watched.ledger.exposed(0).local_memory.ns, 1500);
  EXPECT_EQ(watched.ledger.exposed(0).total().ns, 3500);
}

TEST(AstraRecorder, DrawsNodesByNameAndChunksInEachDimension) {
  // Two chunks of 200 bytes on 2 x 2. A phase of 2 members sends two halves: 200 ns. The second
  // chunk follows the first from dimension to dimension.
  Watched watched;
  watched.sizes = {2, 2};
  watched.settings.splits = 2;
  watched.settings.order = CollectiveOrder::kFirstFirst;
  Node reduce = node(7, NodeType::kCollective, 0, 400);
  reduce.name = "gradients";
  const trace::Trace trace = watched.run({{0, {reduce}}});
  EXPECT_THAT(names(trace, Lane::kCollective), ElementsAre("ALL_REDUCE gradients 0-600"));
  EXPECT_THAT(names(trace, Lane::kDimension),
              ElementsAre("chunk 0: ALL_REDUCE ring, of ALL_REDUCE gradients 0-200",
                          "chunk 1: ALL_REDUCE ring, of ALL_REDUCE gradients 200-400",
                          "chunk 0: ALL_REDUCE ring, of ALL_REDUCE gradients 200-400",
                          "chunk 1: ALL_REDUCE ring, of ALL_REDUCE gradients 400-600"));
  EXPECT_EQ(trace.intervals[1].action.kind, action::ActionKind::kNode);
  // One rank was simulated for all four.
  ASSERT_EQ(trace.header.ranks.size(), 1u);
  EXPECT_EQ(trace.header.ranks[0].stands_for, 4);
  ASSERT_TRUE(trace.header.graph);
  EXPECT_THAT(trace.header.graph->left_out,
              ElementsAre("Ranks that do the same at the same times were simulated once: 1 stand "
                          "for 4."));
}

TEST(AstraRecorder, DrawsAtMostSoManyRanksAndSaysSo) {
  // Rank 0 sends 100 bytes to rank 3, which asks at once.
  Node send = node(0, NodeType::kSend, 0, 100);
  Node receive = node(4, NodeType::kReceive, 0, 100);
  send.comm_peer = 3;
  receive.comm_peer = 0;
  for (const NetworkLaw law :
       {NetworkLaw::kAnalytical, NetworkLaw::kCongestion, NetworkLaw::kFluid}) {
    Watched watched;
    watched.machine.law = law;
    const trace::Trace trace = watched.run(
        {{0, {send}}, {1, {node(0, NodeType::kCompute, 5, 0)}}, {2, {}}, {3, {receive}}}, false);
    EXPECT_THAT(names(trace, Lane::kCollective), ElementsAre("SEND node 0 → 3 0-100"));
    EXPECT_THAT(names(trace, Lane::kDimension), ElementsAre("message 0 → 3 0-100"));
    EXPECT_THAT(names(trace, Lane::kCompute, 1), ElementsAre("node 0 0-5"));
    EXPECT_THAT(names(trace, Lane::kReceive, 3), ElementsAre());
    EXPECT_THAT(trace.header.graph->left_out,
                ElementsAre("2 of 4 simulated ranks are drawn; --trace-ranks draws more. Figures "
                            "are over all."));
    EXPECT_EQ(trace.header.graph->exposed[0].label, "mean of 4 ranks");
    EXPECT_EQ(trace.header.graph->exposed[1].label, "rank 0, the last to end");
    EXPECT_EQ(watched.ledger.bytes_sent(), 100);
  }
}

// A machine tells its observers everything once, in order.
TEST(AstraLedger, TimeAndWorkAddUp) {
  AstraLedger ledger;
  EXPECT_DEATH(ledger.exposed_mean(), "the mean of a run that has not begun");
  EXPECT_DEATH(ledger.last(), "the last NPU of a run that has not begun");
  const auto topology = *network::Topology::create({{network::Block::kRing, 2, 50, 500}});
  const SystemSettings settings;
  const auto workload =
      *make_workload({{0, {node(5, NodeType::kCompute, 100, 0)}}}, {}, topology, settings);
  ledger.begins({&topology, &settings, &workload});
  EXPECT_DEATH(ledger.exposed(2), "NPU 2 of 2");
  EXPECT_DEATH(ledger.stands_for(2), "rank 2 of 2");
  EXPECT_DEATH(ledger.node_ends(1, 0, SimTime{9}), "node 5 of NPU 1 ends and has not begun");
  ledger.node_begins(0, 0, SimTime{40});
  EXPECT_DEATH(ledger.node_ends(0, 0, SimTime{39}), "NPU 0 is at 40 ns, not 39 ns");
  ledger.node_ends(0, 0, SimTime{140});
  EXPECT_DEATH(ledger.rank_ends(0, SimTime{90}), "NPU 0 ends at 90 ns, 10 ns too early");
}

TEST(AstraRecorder, WhatEndsHasBegun) {
  AstraLedger ledger;
  AstraRecorder recorder({});
  const auto topology = *network::Topology::create({{network::Block::kRing, 2, 50, 500}});
  const SystemSettings settings;
  const auto workload =
      *make_workload({{0, {node(5, NodeType::kCompute, 100, 0)}}}, {}, topology, settings);
  recorder.begins({&topology, &settings, &workload});
  EXPECT_DEATH(recorder.node_ends(1, 0, SimTime{9}), "node 0 of rank 1 ends and has not begun");
  EXPECT_DEATH(recorder.phase_ends(1, 4, SimTime{9}), "a phase of chunk 4 ends and has not begun");
  recorder.node_begins(1, 0, SimTime{9});
  EXPECT_DEATH(recorder.take(ledger), "1 nodes and 0 phases have not ended");
}

}  // namespace
}  // namespace tombolo::astra
