#include "predict/workload/dlrm.h"

#include <gtest/gtest.h>

namespace tombolo::workload {
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

TEST(Dlrm, SizesBelowOneAreRefused) {
  EXPECT_FALSE(dlrm_graph({.batch = 0}));
  EXPECT_FALSE(dlrm_graph({.top_layers = 0}));
}

}  // namespace
}  // namespace tombolo::workload
