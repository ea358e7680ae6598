#include "sim/astra_classes.h"

#include <gtest/gtest.h>

#include "sim/astra_run.h"

namespace tombolo::sim {
namespace {

using graph::Node;
using graph::NodeType;

// Two stages of a pipeline, four tensor-parallel ranks each, on a switch: every rank computes, sums
// with its stage, and hands on to its fellow of the next stage.
struct Pipeline {
  network::Topology topology = *network::Topology::create(
      {{network::Block::kSwitch, 4, 50, 500}, {network::Block::kSwitch, 2, 25, 900}});
  SystemSettings settings;
  graph::CommGroups groups = {{"1", {0, 1, 2, 3}}, {"2", {4, 5, 6, 7}}};
  graph::Graphs graphs;

  Pipeline() {
    settings.splits = 4;
    settings.memory_bandwidth = 1600;
    settings.algorithms[graph::CollectiveType::kAllReduce] = {*network::parse_algorithm("ring"),
                                                              *network::parse_algorithm("ring")};
    for (int32_t rank = 0; rank < 8; ++rank) {
      const bool second = rank >= 4;
      Node hand_over, compute, sum;
      hand_over.type = second ? NodeType::kReceive : NodeType::kSend;
      hand_over.comm_peer = second ? rank - 4 : rank + 4;
      hand_over.comm_size = 1 << 20;
      compute.duration = SimDuration{5000};
      sum.type = NodeType::kCollective;
      sum.comm_size = 1 << 18;
      sum.details.edit().pg_name = second ? "2" : "1";
      std::vector<Node> nodes = second ? std::vector<Node>{hand_over, compute, sum}
                                       : std::vector<Node>{compute, sum, hand_over};
      for (size_t n = 0; n < nodes.size(); ++n) {
        nodes[n].id = static_cast<int64_t>(n);
        if (n > 0) nodes[n].data_deps = {static_cast<int64_t>(n) - 1};
      }
      graphs.push_back({rank, nodes});
    }
  }
  Workload workload() const { return *make_workload(graphs, groups, topology, settings); }
  void expect_equal_answers(size_t simulated) const {
    const Workload work = workload();
    const auto all = run_astra(topology, settings, work, {}, false);
    const auto some = run_astra(topology, settings, work, {}, true);
    ASSERT_TRUE(all && some);
    EXPECT_EQ(some->report.ranks.size(), simulated);
    for (int32_t r = 0; r < 8; ++r) {
      EXPECT_EQ(all->rank(r).finish, some->rank(r).finish) << "rank " << r;
      EXPECT_EQ(all->rank(r).communication.ns, some->rank(r).communication.ns) << "rank " << r;
    }
  }
};

TEST(RankClasses, AStageIsAClass) {
  const Pipeline pipeline;
  const auto classes = find_classes(pipeline.workload(), pipeline.topology, pipeline.settings);
  ASSERT_TRUE(classes);
  EXPECT_EQ(classes->first, (std::vector<int32_t>{0, 4}));
  EXPECT_EQ(classes->class_of, (std::vector<int32_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  pipeline.expect_equal_answers(2);
}

TEST(RankClasses, OneStragglerMixesItsGroup) {
  Pipeline pipeline;
  pipeline.graphs[2].nodes[0].duration = SimDuration{9000};
  EXPECT_FALSE(find_classes(pipeline.workload(), pipeline.topology, pipeline.settings));
  pipeline.expect_equal_answers(8);
}

TEST(RankClasses, ALongerWayOfOneMessageTellsRanksApart) {
  // Crossed over: ranks 0 and 1 send to each other's fellow. The law counts the first dimension in
  // which two NPUs differ, so these messages take another time.
  Pipeline pipeline;
  std::swap(pipeline.graphs[0].nodes[2].comm_peer, pipeline.graphs[1].nodes[2].comm_peer);
  std::swap(pipeline.graphs[4].nodes[0].comm_peer, pipeline.graphs[5].nodes[0].comm_peer);
  pipeline.expect_equal_answers(8);
}

TEST(RankClasses, ACollectiveOfAllNeedsOneClass) {
  Pipeline pipeline;
  for (graph::Graph& graph : pipeline.graphs) graph.nodes[graph.rank < 4 ? 1 : 2].details = {};
  EXPECT_FALSE(find_classes(pipeline.workload(), pipeline.topology, pipeline.settings));
}

TEST(RankClasses, GroupsWhoseLinksDifferAreNotCollapsed) {
  // A ring across both dimensions: its links are not alike, so its members do not end together.
  Pipeline pipeline;
  pipeline.groups = {{"1", {0, 1, 4, 5}}, {"2", {2, 3, 6, 7}}};
  for (graph::Graph& graph : pipeline.graphs) {
    graph.nodes[graph.rank < 4 ? 1 : 2].details.edit().pg_name = graph.rank % 4 < 2 ? "1" : "2";
  }
  EXPECT_FALSE(find_classes(pipeline.workload(), pipeline.topology, pipeline.settings));
}

}  // namespace
}  // namespace tombolo::sim
