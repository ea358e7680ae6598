// Themis through the whole machine: table I of the paper, 1 GiB summed over 512 NPUs in 64 chunks.
#include <gtest/gtest.h>

#include "predict/astra/astra_run.h"

namespace tombolo::astra {
namespace {

using graph::CollectiveType;
using network::Block;
using network::ChunkChoice;
using network::DimensionScheduling;

// A dimension's bandwidth is all that an NPU has in it; nothing costs time but bytes.
Result<AstraAnswer> sum(const std::vector<network::Dimension>& dimensions,
                        DimensionScheduling order, ChunkChoice choice, bool collapse = true) {
  SystemSettings settings;
  settings.all_reduce_shape = AllReduceShape::kLocalBandwidthAware;
  settings.dimension_order = order;
  settings.chunk_choice = choice;
  settings.splits = 64;
  settings.endpoint_delay = 0;
  std::vector<network::Dimension> links = dimensions;
  for (network::Dimension& dimension : links) {
    const bool all_to_all = dimension.block == Block::kFullyConnected;
    if (all_to_all) dimension.bandwidth /= dimension.npus - 1;
    settings.algorithms[CollectiveType::kAllReduce].push_back(
        *network::parse_algorithm(all_to_all                        ? "direct"
                                  : dimension.block == Block::kRing ? "ring"
                                                                    : "halvingDoubling"));
  }
  const network::Topology topology = TRY(network::Topology::create(links));
  graph::Node node;
  node.type = graph::NodeType::kCollective;
  node.comm_size = 1 << 30;
  const RankPrograms workload = TRY(make_workload({{0, {node}}}, {}, topology, settings));
  return run_astra(topology, settings, workload, {}, collapse);
}

const std::vector<network::Dimension> kWafer2d = {{Block::kSwitch, 32, 250, 0},
                                                  {Block::kSwitch, 16, 250, 0}};
const std::vector<network::Dimension> kConv3d = {
    {Block::kRing, 16, 200, 0}, {Block::kFullyConnected, 8, 100, 0}, {Block::kSwitch, 4, 50, 0}};
const std::vector<network::Dimension> kConv4d = {{Block::kRing, 2, 250, 0},
                                                 {Block::kFullyConnected, 8, 200, 0},
                                                 {Block::kRing, 8, 100, 0},
                                                 {Block::kSwitch, 4, 50, 0}};

double microseconds(const Result<AstraAnswer>& answer) {
  EXPECT_TRUE(answer);
  return answer ? static_cast<double>(answer->finish().ns) * 1e-3 : 0;
}

// Messages are cut off to whole nanoseconds, 4,224 of them at most: within 4.3 us, and the times
// are printed in whole microseconds.
TEST(AstraThemis, TakesTheTimesOfTableOne) {
  const auto baseline = [](const auto& system) {
    return microseconds(sum(system, DimensionScheduling::kBaseline, ChunkChoice::kFirstCome));
  };
  const auto themis = [](const auto& system) {
    return microseconds(sum(system, DimensionScheduling::kThemis, ChunkChoice::kSmallest));
  };
  EXPECT_NEAR(baseline(kWafer2d), 7750, 4.8);
  EXPECT_NEAR(baseline(kConv3d), 9375, 4.8);
  EXPECT_NEAR(baseline(kConv4d), 4438, 4.8);
  EXPECT_NEAR(themis(kWafer2d), 4004, 4.8);
  EXPECT_NEAR(themis(kConv3d), 5801, 4.8);
  EXPECT_NEAR(themis(kConv4d), 3406, 4.8);
  EXPECT_NEAR(microseconds(sum(kConv4d, DimensionScheduling::kThemis, ChunkChoice::kFirstCome)),
              3872, 4.8);
}

// Of one dimension there is one order.
TEST(AstraThemis, IsInVainWhereNoCollectiveHasSeveralDimensions) {
  const auto in_vain = [](const std::vector<network::Dimension>& system,
                          DimensionScheduling order) {
    return sum(system, order, ChunkChoice::kFirstCome)->report.themis_in_vain;
  };
  EXPECT_TRUE(in_vain({{Block::kRing, 4, 100, 0}}, DimensionScheduling::kThemis));
  EXPECT_FALSE(in_vain({{Block::kRing, 4, 100, 0}}, DimensionScheduling::kBaseline));
  EXPECT_FALSE(in_vain(kWafer2d, DimensionScheduling::kThemis));
}

TEST(AstraThemis, OneRankStandsForAll) {
  const auto one = sum(kConv4d, DimensionScheduling::kThemis, ChunkChoice::kSmallest);
  const auto all = sum(kConv4d, DimensionScheduling::kThemis, ChunkChoice::kSmallest, false);
  ASSERT_TRUE(one && all);
  EXPECT_TRUE(one->collapsed());
  EXPECT_FALSE(all->collapsed());
  for (int32_t r = 0; r < all->npus; ++r) EXPECT_EQ(all->rank(r).finish, one->finish()) << r;
}

}  // namespace
}  // namespace tombolo::astra
