// Groups over several dimensions: their collectives take what the closed form of hierarchical
// collectives says, to the nanosecond where chunks do not meet.
//
//   up     reduce-scatter along the dimensions, the inner first: S, S / k_1, S / (k_1 k_2), ... bytes
//   top    an all-reduce in the last
//   down   all-gathers back
//
// A step takes floor(hops * latency + message / bandwidth), as everywhere under this law.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "predict/astra/astra_ledger.h"
#include "support/astra_test_graphs.h"

namespace tombolo::astra {
namespace {

using graph::CollectiveType;
using graph::NodeType;
using network::Block;
using network::Dimension;

constexpr int64_t kBytes = int64_t{1} << 30;
constexpr double kBandwidths[] = {12.5, 25, 50, 100, 400};

enum class Way { kClasses, kPhases, kMessages };

struct Groups {
  std::vector<Dimension> dimensions;
  std::string algorithm = "ring";
  CollectiveType kind = CollectiveType::kAllReduce;
  int64_t bytes = kBytes;
  SystemSettings settings;
  chakra::CommGroups groups;

  Groups(std::vector<Dimension> shape, std::string name) : dimensions(std::move(shape)) {
    algorithm = std::move(name);
    settings.groups = GroupShape::kHierarchical;
    settings.all_reduce_shape = AllReduceShape::kLocalBandwidthAware;
    settings.endpoint_delay = 0;
  }

  int32_t npus() const {
    int32_t out = 1;
    for (const Dimension& dimension : dimensions) out *= dimension.npus;
    return out;
  }

  // Groups of so many ranks, `stride` apart: tensor parallelism has stride 1.
  void strided(int32_t size, int32_t stride) {
    for (int32_t rank = 0; rank < npus(); ++rank) {
      const int32_t group = rank / (size * stride) * stride + rank % stride;
      groups[std::to_string(1 + group)].push_back(rank);
    }
  }

  Result<AstraAnswer> run(Way way = Way::kClasses, AstraLedger* ledger = nullptr) {
    const network::Topology topology = TRY(network::Topology::create(dimensions));
    settings.algorithms[kind].assign(dimensions.size(), *network::parse_algorithm(algorithm));
    graph::Graphs graphs(static_cast<size_t>(topology.npus()));
    for (size_t r = 0; r < graphs.size(); ++r) graphs[r].rank = static_cast<int32_t>(r);
    for (const auto& [name, ranks] : groups) {
      for (const int32_t rank : ranks) {
        graph::Node node = all_reduce(0, bytes);
        node.collective = kind;
        node.details.edit().pg_name = name;
        graphs[static_cast<size_t>(rank)].nodes = {node};
      }
    }
    const RankPrograms workload = TRY(make_workload(graphs, groups, topology, settings));
    MachineOptions machine;
    machine.whole_phases = way != Way::kMessages;
    if (ledger != nullptr) machine.observers = {ledger};
    return run_astra(topology, settings, workload, machine, way == Way::kClasses);
  }

  int64_t finish(Way way = Way::kClasses) {
    const auto answer = run(way);
    if (!answer) ADD_FAILURE() << answer.error().text();
    return answer ? answer->finish().ns : -1;
  }
};

// One pass along k members that leaves each S / k of S bytes: reduce-scatter, and backwards
// all-gather.
int64_t one_pass(const std::string& algorithm, const Dimension& d, int64_t k, int64_t bytes) {
  const int hops = d.block == Block::kSwitch ? 2 : 1;
  const auto step = [&](int64_t message) {
    return static_cast<int64_t>(
        std::floor(hops * d.latency + static_cast<double>(message) / (d.bandwidth * 1.073741824)));
  };
  if (algorithm == "ring" || algorithm == "direct1") return (k - 1) * step(bytes / k);
  if (algorithm == "direct") return step(bytes / k);  // over k - 1 links at once
  int64_t time = 0;
  for (int64_t message = bytes / 2; message >= bytes / k; message /= 2) time += step(message);
  return time;
}

int64_t closed_form(const Groups& g, const std::vector<std::pair<size_t, int64_t>>& spans) {
  const bool both = g.kind == CollectiveType::kAllReduce;
  int64_t time = 0;
  // Bytes at the larger end: what an all-gather leaves, a reduce-scatter begins with.
  int64_t bytes = g.bytes;
  if (g.kind == CollectiveType::kAllGather) {
    for (const auto& [d, k] : spans) bytes *= k;
  }
  for (const auto& [d, k] : spans) {
    time += (both ? 2 : 1) * one_pass(g.algorithm, g.dimensions[d], k, bytes);
    bytes /= k;
  }
  return time;
}

const std::pair<const char*, Block> kAlgorithms[] = {{"ring", Block::kRing},
                                                     {"direct", Block::kFullyConnected},
                                                     {"halvingDoubling", Block::kSwitch}};

// Tensor parallelism of 16 over 2 x 8: each dimension with its own bandwidth.
TEST(AstraGroups, TensorOfSixteenOverTwoByEight) {
  for (const auto& [algorithm, block] : kAlgorithms) {
    for (const size_t varied : {0, 1}) {
      int64_t before = INT64_MAX;
      for (const double bandwidth : kBandwidths) {
        // Neighbours on a ring of eight are one hop apart, as are the two of the other dimension.
        Groups g({{block, 2, 200, 300}, {block, 8, 50, 700}, {block, 4, 25, 0}}, algorithm);
        g.dimensions[varied].bandwidth = bandwidth;
        g.strided(16, 1);
        for (const auto kind : {CollectiveType::kReduceScatter, CollectiveType::kAllGather,
                                CollectiveType::kAllReduce}) {
          SCOPED_TRACE(fmt::format("{} {}, dimension {} at {}", algorithm, to_name(kind), varied,
                                   bandwidth));
          g.kind = kind;
          const int64_t expected = closed_form(g, {{0, 2}, {1, 8}});
          EXPECT_EQ(g.finish(), expected);
          if (bandwidth == 50) {
            EXPECT_EQ(g.finish(Way::kPhases), expected);
            EXPECT_EQ(g.finish(Way::kMessages), expected);
          }
        }
        const int64_t now = g.finish();
        EXPECT_LT(now, before);
        before = now;
      }
    }
  }
}

// Data parallelism of 64 over 8 x 8, whose first dimension is tensor parallelism's.
TEST(AstraGroups, DataOfSixtyFourOverEightByEight) {
  for (const auto& [algorithm, block] : kAlgorithms) {
    for (const size_t varied : {1, 2}) {
      int64_t before = INT64_MAX;
      for (const double bandwidth : kBandwidths) {
        SCOPED_TRACE(fmt::format("{}, dimension {} at {}", algorithm, varied, bandwidth));
        Groups g({{block, 2, 400, 0}, {block, 8, 100, 500}, {block, 8, 50, 900}}, algorithm);
        g.dimensions[varied].bandwidth = bandwidth;
        g.strided(64, 2);
        const int64_t now = g.finish();
        EXPECT_EQ(now, closed_form(g, {{1, 8}, {2, 8}}));
        EXPECT_LT(now, before);
        before = now;
      }
    }
  }
}

// Groups of four ranks of eight that hang on a switch: two of each, in four of the others.
TEST(AstraGroups, TakeAPartOfADimension) {
  Groups g({{Block::kSwitch, 8, 300, 500}, {Block::kSwitch, 4, 25, 2500}}, "ring");
  g.strided(8, 4);
  EXPECT_EQ(g.finish(), closed_form(g, {{0, 2}, {1, 4}}));
  EXPECT_EQ(g.finish(Way::kMessages), closed_form(g, {{0, 2}, {1, 4}}));
  AstraLedger ledger;
  ASSERT_TRUE(g.run(Way::kClasses, &ledger));
  // An NPU sends S / 2 each way in the first, 3/4 of the rest each way in the second.
  EXPECT_EQ(ledger.dimensions()[0].bytes_max, kBytes);
  EXPECT_EQ(ledger.dimensions()[1].bytes_max, kBytes * 3 / 4);
}

// Arcs of a ring: their ends are further apart than neighbours, so no rank stands for the others.
TEST(AstraGroups, AnArcOfARingIsPlayedByAllItsRanks) {
  Groups g({{Block::kRing, 8, 100, 500}, {Block::kSwitch, 2, 50, 0}}, "ring");
  g.strided(4, 1);
  EXPECT_EQ(g.finish(Way::kPhases), g.finish(Way::kMessages));
  EXPECT_EQ(g.finish(Way::kClasses), g.finish(Way::kMessages));
  AstraLedger of_phases, of_messages;
  ASSERT_TRUE(g.run(Way::kPhases, &of_phases));
  ASSERT_TRUE(g.run(Way::kMessages, &of_messages));
  EXPECT_EQ(of_phases.dimensions(), of_messages.dimensions());
}

// Over a switch a message goes to whom it is for: three of S / 4, which a ring would pass on six
// times.
TEST(AstraGroups, NobodyPassesOnAnAllToAllOverASwitch) {
  for (const char* algorithm : {"ring", "direct1"}) {
    Groups g({{Block::kSwitch, 4, 100, 500}, {Block::kSwitch, 4, 25, 2500}}, algorithm);
    g.kind = CollectiveType::kAllToAll;
    g.strided(8, 2);
    AstraLedger ledger;
    const auto answer = g.run(Way::kClasses, &ledger);
    ASSERT_TRUE(answer) << answer.error().text();
    g.algorithm = "direct1";
    EXPECT_EQ(answer->finish().ns, one_pass("direct1", g.dimensions[0], 2, kBytes) +
                                       one_pass("direct1", g.dimensions[1], 4, kBytes));
    EXPECT_EQ(ledger.dimensions()[0].bytes_max, kBytes / 2);
    EXPECT_EQ(ledger.dimensions()[1].bytes_max, kBytes * 3 / 4);
  }
}

// 1,000,003 bytes of 12 ranks in 4 chunks: 83,334 a rank, that is 4 chunks of 20,834 or 20,833, and
// nobody sends more.
TEST(AstraGroups, CutBytesThatNothingDivides) {
  Groups g({{Block::kSwitch, 3, 100, 0}, {Block::kSwitch, 4, 100, 0}, {Block::kSwitch, 2, 100, 0}},
           "ring");
  g.settings.splits = 4;
  g.bytes = 1'000'003;
  g.strided(12, 1);
  AstraLedger ledger;
  ASSERT_TRUE(g.run(Way::kClasses, &ledger));
  EXPECT_EQ(ledger.dimensions()[0].bytes_max, 2 * 2 * 4 * 83'334);  // 2/3 of 12 parts, both ways
  EXPECT_EQ(ledger.dimensions()[1].bytes_max, 2 * 3 * 83'334);      // 3/4 of 4
  // Fewer bytes than ranks: one each, once.
  g.bytes = 5;
  AstraLedger small;
  ASSERT_TRUE(g.run(Way::kClasses, &small));
  EXPECT_EQ(small.dimensions()[1].bytes_max, 2 * 3);
}

// Table I of the paper, of a group: half of the system, the other half does the same.
TEST(AstraGroups, ThemisTakesTheTimesOfTableOne) {
  Groups g({{Block::kSwitch, 32, 250, 0}, {Block::kSwitch, 16, 250, 0}, {Block::kSwitch, 2, 1, 0}},
           "halvingDoubling");
  g.settings.splits = 64;
  g.strided(512, 1);
  EXPECT_NEAR(static_cast<double>(g.finish()) * 1e-3, 7750, 4.8);
  g.settings.dimension_order = network::DimensionScheduling::kThemis;
  g.settings.chunk_choice = network::ChunkChoice::kSmallest;
  const auto answer = g.run();
  ASSERT_TRUE(answer);
  EXPECT_NEAR(static_cast<double>(answer->finish().ns) * 1e-3, 4004, 4.8);
  EXPECT_FALSE(answer->report.themis_in_vain);
}

// Groups of three on rows of four are no product: one ring each, whose neighbours may differ in
// both dimensions. Then latencies add up, and the thinner link counts.
TEST(AstraGroups, OthersAreOneRingAndSaidToBe) {
  Groups g({{Block::kSwitch, 4, 100, 500}, {Block::kSwitch, 3, 10, 2500}}, "ring");
  g.strided(3, 1);
  const auto answer = g.run();
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_THAT(answer->report.scattered_groups,
              testing::ElementsAre(testing::Pair(3, testing::SizeIs(3))));
  EXPECT_EQ(g.finish(Way::kMessages), answer->finish().ns);
  // 3, 4 and 5: from 3 to 4 both dimensions are passed, from 5 to 3 as well, at 10 * 2^30 B/s.
  const auto topology = *network::Topology::create(g.dimensions);
  const int64_t third = (kBytes + 2) / 3;
  EXPECT_EQ(topology.delay_through_all(3, 4, third).ns,
            6000 + static_cast<int64_t>(static_cast<double>(third) / 10.73741824));
  EXPECT_GE(answer->finish().ns, 2 * topology.delay_through_all(3, 4, third).ns);
  g.settings.groups = GroupShape::kRing;
  EXPECT_LT(g.finish(), answer->finish().ns);
}

// By the last dimension that a group spans; a group of one does nothing.
TEST(AstraGroups, StartUp) {
  Groups g({{Block::kSwitch, 4, 100, 500}, {Block::kSwitch, 4, 25, 2500}}, "ring");
  for (const auto& [size, stride, startup] : {std::tuple(4, 1, 700), {4, 4, 9000}, {8, 2, 9000}}) {
    g.groups.clear();
    g.strided(size, stride);
    g.settings.startup = {};
    const int64_t without = g.finish();
    g.settings.startup = {700, 9000};
    EXPECT_EQ(g.finish(), without + startup);
    EXPECT_EQ(g.finish(Way::kMessages), without + startup);
  }
  g.groups.clear();
  g.strided(1, 1);
  EXPECT_EQ(g.finish(), 0);
}

TEST(AstraGroups, WantOneAlgorithmPerDimensionOrOneForAll) {
  Groups g({{Block::kSwitch, 4, 100, 500}, {Block::kSwitch, 4, 25, 500}, {Block::kSwitch, 2, 9, 0}},
           "ring");
  g.strided(16, 1);
  const network::Topology topology = *network::Topology::create(g.dimensions);
  const auto plan = [&](std::vector<const char*> names) {
    for (const char* name : names) {
      g.settings.algorithms[g.kind].push_back(*network::parse_algorithm(name));
    }
    CollectivePlanner planner(topology, g.settings, 1);
    CollectivePlanner::Question question;
    question.bytes = kBytes;
    question.group_size = 16;
    question.layout = planner.layout_of(g.groups.at("1"));
    Rotation rotation = planner.no_rotation();
    const auto plans = planner.plan(question, rotation);
    g.settings.algorithms.clear();
    return plans ? static_cast<int>((**plans)[0]->phases.size()) : -1;
  };
  EXPECT_EQ(plan({"ring"}), 3);
  EXPECT_EQ(plan({"ring", "ring"}), 3);
  EXPECT_EQ(plan({"ring", "halvingDoubling", "ring"}), 3);
  EXPECT_EQ(plan({"oneRing"}), 1);  // all of them are one
  g.groups.clear();
  g.strided(16, 2);
  EXPECT_EQ(plan({"ring", "ring"}), -1);
}

// ASTRA-sim's way stays what it was: one ring, charged to its first dimension.
TEST(AstraGroups, AreRingsUnlessAskedFor) {
  Groups g(
      {{Block::kSwitch, 2, 200, 300}, {Block::kSwitch, 8, 50, 700}, {Block::kSwitch, 4, 25, 0}},
      "ring");
  g.settings.groups = GroupShape::kRing;
  g.strided(16, 1);
  const int64_t before = g.finish();
  g.dimensions[1].bandwidth = 1;
  EXPECT_EQ(g.finish(), before);
  EXPECT_EQ(g.finish(Way::kMessages), before);
}

}  // namespace
}  // namespace tombolo::astra
