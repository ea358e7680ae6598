#include "planner/dlrm.h"

#include <gtest/gtest.h>

#include "sim/astra_run.h"

namespace tombolo::planner {
namespace {

using graph::CollectiveType;
using graph::NodeType;

TEST(Dlrm, SumsEveryParameterOnceAndExchangesVectorsTwice) {
  const graph::Graph graph = *dlrm_graph({});
  int64_t summed = 0, exchanged = 0, operations = 0;
  for (const graph::Node& node : graph.nodes) {
    operations += node.num_ops;
    if (node.type != NodeType::kCollective) continue;
    (node.collective == CollectiveType::kAllReduce ? summed : exchanged) += node.comm_size;
  }
  // Table II: 57 M parameters, two bytes each.
  EXPECT_EQ(summed, 114'000'000);
  // 128 samples of 64 vectors of 64 elements of two bytes: 1 MiB there and back.
  EXPECT_EQ(exchanged, 2 << 20);
  EXPECT_EQ(operations, 6 * 57'000'000LL * 128);
}

TEST(Dlrm, OneNpuComputesForAsLongAsItsOperationsTake) {
  // 6 x 57 M x 128 operations at 234 TFLOPS: 187.08 us; collectives of one take no time.
  const auto topology = network::Topology::create({{network::Block::kRing, 1}});
  sim::SystemSettings settings;
  const auto ring = *network::parse_algorithm("ring");
  settings.algorithms[CollectiveType::kAllReduce] = {ring};
  settings.algorithms[CollectiveType::kAllToAll] = {ring};
  const auto workload = sim::make_workload({*dlrm_graph({})}, {}, *topology, settings);
  ASSERT_TRUE(workload) << workload.error().text();
  const auto answer = sim::run_astra(*topology, settings, *workload, {}, true);
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_NEAR(static_cast<double>(answer->finish().ns), 187'077, 16);
}

TEST(Dlrm, SizesBelowOneAreRefused) {
  EXPECT_FALSE(dlrm_graph({.batch = 0}));
  EXPECT_FALSE(dlrm_graph({.top_layers = 0}));
}

}  // namespace
}  // namespace tombolo::planner
