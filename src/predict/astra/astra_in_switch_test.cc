// Collectives that a switch performs, through the whole machine: docs/laws/in_switch_collective.md.
#include <gtest/gtest.h>

#include "predict/astra/astra_run.h"

namespace tombolo::astra {
namespace {

using graph::CollectiveType;
using network::Block;

constexpr double kBytePerNs = 1e9 / (1 << 30);

struct SwitchSystem {
  std::vector<network::Dimension> dimensions = {{Block::kSwitch, 4, kBytePerNs, 100}};
  std::vector<const char*> algorithms = {"inSwitch"};
  chakra::CommGroups groups;
  SystemSettings settings;

  Result<AstraAnswer> run(CollectiveType kind, int64_t bytes, const MachineOptions& machine = {}) {
    settings.all_reduce_shape = AllReduceShape::kLocalBandwidthAware;
    settings.memory_bandwidth = 1;  // costs nothing: the switch adds
    for (const char* name : algorithms) {
      settings.algorithms[kind].push_back(*network::parse_algorithm(name));
    }
    const network::Topology topology = TRY(network::Topology::create(dimensions));
    graph::Graphs graphs;
    for (int32_t rank = 0; rank < topology.npus(); ++rank) {
      graph::Node node;
      node.type = graph::NodeType::kCollective;
      node.collective = kind;
      node.comm_size = bytes;
      if (!groups.empty()) node.details.edit().pg_name = rank < 4 ? "1" : "2";
      graphs.push_back({rank, {node}});
    }
    const RankPrograms workload = TRY(make_workload(graphs, groups, topology, settings));
    return run_astra(topology, settings, workload, machine, true);
  }
};

int64_t finish(const Result<AstraAnswer>& answer) {
  if (!answer) ADD_FAILURE() << answer.error().text();
  return answer ? answer->finish().ns : 0;
}

TEST(AstraInSwitch, TakesItsClosedForm) {
  // 10 + 2 * 100 + bytes + 10, of 4000 bytes given or gathered.
  EXPECT_EQ(finish(SwitchSystem().run(CollectiveType::kAllReduce, 4000)), 4220);
  EXPECT_EQ(finish(SwitchSystem().run(CollectiveType::kReduceScatter, 4000)), 4220);
  EXPECT_EQ(finish(SwitchSystem().run(CollectiveType::kAllGather, 1000)), 4220);
}

TEST(AstraInSwitch, WorksBesideOtherDimensions) {
  // A ring of 2, then a switch of 4: the ring halves 4000 bytes (10 + 100 + 2000 + 10, and 3 * 2000
  // to add them), the switch sums 2000 (10 + 200 + 2000 + 10), the ring gathers (2120).
  SwitchSystem system;
  system.dimensions = {{Block::kRing, 2, kBytePerNs, 100}, {Block::kSwitch, 4, kBytePerNs, 100}};
  system.algorithms = {"ring", "inSwitch"};
  EXPECT_EQ(finish(system.run(CollectiveType::kAllReduce, 4000)), 2120 + 6000 + 2220 + 2120);
}

TEST(AstraInSwitch, LinksStoreAndForwardUnderCongestion) {
  // Every hop takes 100 + 4000.
  MachineOptions congestion;
  congestion.law = NetworkLaw::kCongestion;
  EXPECT_EQ(finish(SwitchSystem().run(CollectiveType::kAllReduce, 4000, congestion)),
            10 + 8200 + 10);
}

TEST(AstraInSwitch, IsForSwitchesOnly) {
  const auto error = [](SwitchSystem system, CollectiveType kind) {
    const auto answer = system.run(kind, 4000);
    EXPECT_FALSE(answer);
    return answer ? "" : answer.error().text();
  };
  SwitchSystem ring;
  ring.dimensions[0].block = Block::kRing;
  EXPECT_NE(error(ring, CollectiveType::kAllReduce).find("dimension 1 is a Ring"),
            std::string::npos);
  EXPECT_NE(error({}, CollectiveType::kAllToAll).find("cannot do an all-to-all"),
            std::string::npos);
  SwitchSystem two;
  two.dimensions.push_back({Block::kSwitch, 2, kBytePerNs, 100});
  two.groups = {{"1", {0, 1, 2, 3}}, {"2", {4, 5, 6, 7}}};
  EXPECT_NE(error(two, CollectiveType::kAllReduce).find("need not be at one switch"),
            std::string::npos);
  EXPECT_FALSE(network::parse_algorithm("oneInSwitch"));
}

}  // namespace
}  // namespace tombolo::astra
