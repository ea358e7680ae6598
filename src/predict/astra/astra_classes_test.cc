#include "predict/astra/astra_classes.h"

#include <gtest/gtest.h>

#include "predict/astra/astra_run.h"

namespace tombolo::astra {
namespace {

using graph::Node;
using graph::NodeType;

// Two stages of a pipeline, four tensor-parallel ranks each, on a switch: every rank computes, sums
// with its stage, and hands on to its fellow of the next stage.
struct Pipeline {
  network::Topology topology = *network::Topology::create(
      {{network::Block::kSwitch, 4, 50, 500}, {network::Block::kSwitch, 2, 25, 900}});
  SystemSettings settings;
  chakra::CommGroups groups = {{"1", {0, 1, 2, 3}}, {"2", {4, 5, 6, 7}}};
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
  RankPrograms workload() const { return *make_workload(graphs, groups, topology, settings); }
  void expect_equal_answers(size_t simulated) const {
    const RankPrograms work = workload();
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

TEST(RankClasses, TwoThatSendToEachOtherAreNotAlikeForIt) {
  // One of them computes longer before. Who is whose peer must not get lost.
  Pipeline pipeline;
  pipeline.topology = *network::Topology::create({{network::Block::kSwitch, 2, 50, 500},
                                                  {network::Block::kSwitch, 2, 50, 500},
                                                  {network::Block::kSwitch, 2, 25, 900}});
  pipeline.groups.clear();
  pipeline.graphs.clear();
  for (int32_t rank = 0; rank < 8; ++rank) {
    std::vector<Node> nodes(3);
    nodes[0].duration = SimDuration{rank % 2 == 0 ? 5000 : 9000};
    nodes[1].type = NodeType::kSend;
    nodes[2].type = NodeType::kReceive;
    nodes[1].comm_peer = nodes[2].comm_peer = rank ^ 1;
    nodes[1].comm_size = nodes[2].comm_size = 100;
    nodes[1].data_deps = {0};
    for (size_t n = 0; n < nodes.size(); ++n) nodes[n].id = static_cast<int64_t>(n);
    pipeline.graphs.push_back({rank, nodes});
  }
  pipeline.expect_equal_answers(2);
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

TEST(RankClasses, MembersOverUnlikeLinksAreToldApartByPlace) {
  // Rings in another order: 0 1 2 3 on a ring of four has one hop everywhere, 0 1 3 2 has two hops
  // from 1 to 3 and from 2 to 0. Each place in it is a class, in both stages.
  Pipeline pipeline;
  pipeline.topology = *network::Topology::create(
      {{network::Block::kRing, 4, 50, 500}, {network::Block::kSwitch, 2, 25, 900}});
  pipeline.expect_equal_answers(2);
  pipeline.groups = {{"1", {0, 1, 3, 2}}, {"2", {4, 5, 7, 6}}};
  pipeline.expect_equal_answers(8);
}

TEST(RankClasses, PairsAcrossStagesStandForEachOther) {
  // As the first and the last stage sum a tied embedding: four pairs of unlike ranks.
  Pipeline pipeline;
  for (graph::Graph& graph : pipeline.graphs) {
    Node sum;
    sum.id = 3;
    sum.type = NodeType::kCollective;
    sum.comm_size = 1 << 20;
    const int32_t pair = graph.rank % 4;
    sum.details.edit().pg_name = std::to_string(3 + pair);
    sum.data_deps = {2};
    graph.nodes.push_back(sum);
    pipeline.groups[std::to_string(3 + pair)] = {pair, pair + 4};
  }
  pipeline.expect_equal_answers(2);
  const auto classes = find_classes(pipeline.workload(), pipeline.topology, pipeline.settings);
  ASSERT_TRUE(classes);
  const RankPrograms workload = pipeline.workload();
  int32_t of_a_pair = -1;
  for (size_t g = 0; g < workload.groups.size(); ++g) {
    if (workload.groups[g].id < 3) {
      EXPECT_EQ(classes->stand_in[g], -1);
    } else if (of_a_pair < 0) {
      of_a_pair = classes->stand_in[g];
    } else {
      EXPECT_EQ(classes->stand_in[g], of_a_pair);
    }
  }
  // One of the pairs the other way round is like no other.
  pipeline.groups["6"] = {7, 3};
  pipeline.expect_equal_answers(8);
}

TEST(RankClasses, MessagesToSeveralRanksOfAClassMustDiffer) {
  // Everybody sends 100 bytes to the left, computes, sends as many to the right, and asks for the
  // one from the left first. Taken for each other, the early one would be had for the late one.
  Pipeline pipeline;
  pipeline.topology = *network::Topology::create({{network::Block::kRing, 8, 50, 500}});
  pipeline.settings.algorithms.clear();
  pipeline.groups.clear();
  pipeline.graphs.clear();
  for (int32_t rank = 0; rank < 8; ++rank) {
    const int32_t left = (rank + 7) % 8, right = (rank + 1) % 8;
    std::vector<Node> nodes(6);
    const auto message = [&](size_t n, NodeType type, int32_t peer) {
      nodes[n].type = type;
      nodes[n].comm_peer = peer;
      nodes[n].comm_size = 100;
    };
    message(0, NodeType::kSend, left);
    nodes[1].duration = SimDuration{50'000};
    message(2, NodeType::kSend, right);
    message(3, NodeType::kReceive, left);
    nodes[4].duration = SimDuration{9'000};
    message(5, NodeType::kReceive, right);
    nodes[2].data_deps = {1};
    nodes[4].data_deps = {3};
    nodes[5].data_deps = {3};
    for (size_t n = 0; n < nodes.size(); ++n) nodes[n].id = static_cast<int64_t>(n);
    pipeline.graphs.push_back({rank, nodes});
  }
  pipeline.expect_equal_answers(8);
  // Told apart by their tags, one rank stands for all.
  for (graph::Graph& graph : pipeline.graphs) graph.nodes[2].comm_tag = graph.nodes[3].comm_tag = 1;
  pipeline.expect_equal_answers(1);
}

TEST(RankClasses, OfEveryNpu) {
  const Pipeline pipeline;
  Encounters met;
  met.programs.resize(8);
  met.peers.resize(8);
  EXPECT_DEATH((void)find_classes(met, pipeline.topology, pipeline.settings),
               "8 programs, 8 lists of peers and 0 of groups for 8 NPUs");
}

TEST(Group, HasEachRankOnce) {
  EXPECT_EQ(Group(7, {3, 1}).position(1), 1);
  EXPECT_DEATH(Group(7, {}), "communicator group 7 has no ranks");
  EXPECT_DEATH(Group(7, {3, 1, 3}), "rank 3 stands twice in communicator group 7");
}

}  // namespace
}  // namespace tombolo::astra
