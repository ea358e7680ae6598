// Traces of one number of ranks asked about another: compared with graphs made for that number.
#include "spec/chakra/retarget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::chakra {
namespace {

using ::testing::HasSubstr;

graph::Node collective(graph::CollectiveType type, int64_t bytes, const std::string& group) {
  graph::Node node;
  node.type = graph::NodeType::kCollective;
  node.collective = type;
  node.comm_size = bytes;
  if (!group.empty()) node.details.edit().pg_name = group;
  return node;
}

graph::Node message(graph::NodeType type, int32_t peer) {
  graph::Node node;
  node.type = type;
  node.comm_peer = peer;
  node.comm_size = 1000;
  return node;
}

graph::Node compute(int64_t ns) {
  graph::Node node;
  node.duration = SimDuration{ns};
  return node;
}

// In a row.
graph::Graph graph_of(int32_t rank, std::vector<graph::Node> nodes) {
  for (size_t n = 0; n < nodes.size(); ++n) {
    nodes[n].id = static_cast<int64_t>(n);
    if (n > 0) nodes[n].data_deps = {static_cast<int64_t>(n) - 1};
  }
  return {rank, std::move(nodes)};
}

// Tensor 2, data `data`, pipeline 2, numbered in this order: groups of tensor parallelism first,
// then those of data parallelism. A rank sums with its partner, hands on, sums with its replicas,
// updates, and gathers what the others have updated.
struct Training {
  graph::Graphs graphs;
  CommGroups groups;

  explicit Training(int32_t data, int64_t gathered = 4096) {
    const int32_t ranks = 4 * data;
    for (int32_t pair = 0; pair < ranks / 2; ++pair) {
      groups[std::to_string(1 + pair)] = {2 * pair, 2 * pair + 1};
    }
    for (int32_t place = 0; place < 4; ++place) {
      auto& members = groups[data_group(data, place)];
      for (int32_t d = 0; d < data; ++d)
        members.push_back(place % 2 + 2 * (d + data * (place / 2)));
    }
    for (int32_t rank = 0; rank < ranks; ++rank) {
      const bool second = rank >= 2 * data;
      const std::string tensor = std::to_string(1 + rank / 2);
      const std::string replicas = data_group(data, rank % 2 + (second ? 2 : 0));
      std::vector<graph::Node> nodes;
      if (second) nodes.push_back(message(graph::NodeType::kReceive, rank - 2 * data));
      nodes.push_back(compute(5000));
      nodes.push_back(collective(graph::CollectiveType::kAllReduce, 2048, tensor));
      nodes.push_back(compute(5000));
      if (!second) nodes.push_back(message(graph::NodeType::kSend, rank + 2 * data));
      nodes.push_back(collective(graph::CollectiveType::kReduceScatter, gathered, replicas));
      nodes.push_back(compute(300));
      nodes.push_back(collective(graph::CollectiveType::kAllGather, gathered / data, replicas));
      graphs.push_back(graph_of(rank, std::move(nodes)));
    }
  }

  static std::string data_group(int32_t data, int32_t place) {
    return std::to_string(1 + 2 * data + place);
  }
  // As they are, or as traced and asked about `ranks`.
  Result<Retarget> retargeted(int64_t ranks, std::vector<std::string> data_groups = {}) const {
    return Retarget::make(graphs, groups, {ranks, std::move(data_groups)});
  }
  std::string refusal(int64_t ranks, std::vector<std::string> data_groups = {}) const {
    const auto made = retargeted(ranks, std::move(data_groups));
    return made ? "" : made.error().text();
  }
};

void expect_equal(const Retarget& ours, const Training& theirs) {
  ASSERT_EQ(static_cast<size_t>(ours.ranks()), theirs.graphs.size());
  EXPECT_EQ(ours.groups(), theirs.groups);
  for (int32_t rank = 0; rank < ours.ranks(); ++rank) {
    EXPECT_EQ(ours.graph(rank), theirs.graphs[static_cast<size_t>(rank)]) << "rank " << rank;
  }
}

TEST(Retarget, MoreAndFewerReplicasAreThoseThatWouldHaveBeenTraced) {
  const Training two(2), eight(8);
  const auto up = two.retargeted(32), down = eight.retargeted(8);
  ASSERT_TRUE(up) << up.error().text();
  ASSERT_TRUE(down) << down.error().text();
  EXPECT_EQ(up->brief(), "2 replicas of 4 ranks become 8; data-parallel: groups 5, 6, 7, 8");
  expect_equal(*up, eight);
  expect_equal(*down, two);
  expect_equal(*two.retargeted(8), two);
}

TEST(Retarget, CollectivesOfAllRanksJoinReplicas) {
  graph::Graphs graphs;
  for (int32_t rank = 0; rank < 2; ++rank) {
    graphs.push_back(graph_of(
        rank, {compute(100 + rank), collective(graph::CollectiveType::kAllReduce, 1 << 20, ""),
               collective(graph::CollectiveType::kAllGather, 1 << 20, "")}));
  }
  const auto made = Retarget::make(graphs, {}, {6, {}});
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_TRUE(made->groups().empty());
  const graph::Graph fifth = made->graph(5);
  // What was measured on rank 1 is done by ranks 3 and 5.
  EXPECT_EQ(fifth.nodes[0].duration.ns, 101);
  EXPECT_EQ(fifth.nodes[1].comm_size, 1 << 20);
  // 2 MiB in six parts: 349,525.33 bytes.
  EXPECT_EQ(fifth.nodes[2].comm_size, 349'525);
}

TEST(Retarget, NamesOfDataGroupsDecide) {
  const Training two(2);
  const auto named = two.retargeted(16, {"5", "6", "7", "8"});
  ASSERT_TRUE(named) << named.error().text();
  expect_equal(*named, Training(4));
  // Told so, it copies along the tensor-parallel dimension: two replicas of the ranks 0, 2, 4, 6.
  const auto other = two.retargeted(16, {"1", "2", "3", "4"});
  ASSERT_TRUE(other) << other.error().text();
  EXPECT_EQ(other->groups().at("1"), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_THAT(two.refusal(16, {"5", "6", "7"}), HasSubstr("rank"));
  EXPECT_THAT(two.refusal(16, {"77"}), HasSubstr("no collective joins group 77"));
}

TEST(Retarget, WhatIsNotClearIsAsked) {
  // Sums that computations wait for, along both dimensions.
  Training both(2);
  for (graph::Graph& graph : both.graphs) {
    std::vector<graph::Node> nodes(graph.nodes.begin(), graph.nodes.end() - 1);
    graph::Node again = nodes.front();
    nodes.push_back(compute(10));
    nodes.push_back(
        collective(graph::CollectiveType::kAllReduce, 64, std::to_string(1 + graph.rank / 2)));
    graph = graph_of(graph.rank, nodes);
  }
  const std::string said = both.refusal(16);
  EXPECT_THAT(said, HasSubstr("not clear"));
  EXPECT_THAT(said, HasSubstr("--data-groups=1,2,3,4"));
  EXPECT_THAT(said, HasSubstr("--data-groups=5,6,7,8"));
}

TEST(Retarget, WhatCannotBeIsRefusedWithTheReason) {
  const Training two(2);
  EXPECT_THAT(two.refusal(10), HasSubstr("10 ranks are no whole number of replicas of 4"));
  EXPECT_THAT(two.refusal(0), HasSubstr("multiple of 4"));
  Training odd(2);
  odd.graphs[2].nodes[1].comm_size = 4;
  EXPECT_THAT(odd.refusal(16, {"5", "6", "7", "8"}), HasSubstr("ranks 0 and 2"));
  Training undeclared(2);
  undeclared.groups.erase("6");
  EXPECT_THAT(undeclared.refusal(16), HasSubstr("group 6 is not declared"));
  Training exchanged(2);
  for (graph::Graph& graph : exchanged.graphs) {
    graph.nodes.back().collective = graph::CollectiveType::kAllToAll;
  }
  EXPECT_THAT(exchanged.refusal(16, {"5", "6", "7", "8"}), HasSubstr("all-to-all"));
  Training lost(2);
  lost.graphs[0].nodes[3].comm_peer = 8;
  EXPECT_THAT(lost.refusal(16), HasSubstr("rank 8 at its other end has no trace"));
  // One replica: what it would sum with others is not in the trace. What its two halves sum is
  // waited for by computation, so it is not taken for that.
  EXPECT_THAT(Training(1).refusal(8), HasSubstr("not clear which groups are data-parallel"));
}

TEST(Retarget, CallersKeepTheirPromises) {
  const auto find = [](const graph::Graphs& graphs) { return find_replicas(graphs, {}, {}); };
  EXPECT_DEATH((void)find({}), "the replicas of no ranks");
  EXPECT_DEATH((void)find({{3, {}}}), "graph 0 is of rank 3");
  const auto summing = [](std::vector<int64_t> after) {
    graph::Graphs graphs;
    for (const int32_t rank : {0, 1}) {
      graphs.push_back({rank,
                        {{.id = 1, .data_deps = {}},
                         {.id = 2, .type = graph::NodeType::kCollective, .data_deps = after}}});
    }
    return graphs;
  };
  EXPECT_TRUE(find(summing({1})));
  EXPECT_DEATH((void)find(summing({9})), "there is no node 9 to wait for");
  EXPECT_DEATH((void)find(summing({2})), "1 of 2 nodes wait for each other");
  const auto retarget = Retarget::make(summing({1}), {}, {.ranks = 4, .data_groups = {}});
  ASSERT_TRUE(retarget);
  EXPECT_DEATH((void)retarget->graph(4), "rank 4 of 4");
}

}  // namespace
}  // namespace tombolo::chakra
