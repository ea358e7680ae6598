#include "spec/chakra/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::chakra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two computations (3 and 4 us), one after the other, around an all-gather of 5 bytes that lasts 1
// us; a concurrent host operation of 9 us; edges 1 -> 0, 2 -> 1, and 2 -> 8, which is missing.
Statistics example() {
  StatisticsBuilder builder;
  builder.add({.id = 0, .duration = {3000}, .num_ops = 10});
  builder.add({.id = 1,
               .type = graph::NodeType::kCollective,
               .collective = graph::CollectiveType::kAllGather,
               .duration = {1000},
               .comm_size = 5,
               .data_deps = {0}});
  builder.add({.id = 2, .name = "F", .duration = {4000}, .data_deps = {1, 8}, .num_ops = 20});
  builder.add({.id = 3, .is_cpu_op = true, .duration = {9000}});
  return builder.finish("t.et").value();
}

TEST(Statistics, CountWhatAGraphHolds) {
  const Statistics s = example();
  EXPECT_EQ(s.nodes, 4);
  EXPECT_EQ(s.by_type[static_cast<size_t>(graph::NodeType::kCompute)], 3);
  EXPECT_EQ(s.cpu_ops, 1);
  EXPECT_EQ(s.collectives[static_cast<size_t>(graph::CollectiveType::kAllGather)].bytes, 5);
  EXPECT_EQ(s.num_ops, 30);
  EXPECT_EQ(s.compute_time.ns, 7000);
  EXPECT_EQ(s.communication_time.ns, 1000);
  EXPECT_EQ(s.cpu_time.ns, 9000);
  EXPECT_EQ(s.edges, 3);
  EXPECT_EQ(s.missing, 1);
  EXPECT_EQ(s.critical_path.ns, 9000);  // the host operation; 3 + 1 + 4 = 8 is less
  EXPECT_THAT(s.critical_nodes, ElementsAre(3));
}

TEST(Statistics, ArePrinted) {
  const Statistics s = example();
  EXPECT_THAT(s.full(), HasSubstr("ALL_GATHER          5 B in 1\n"));
  EXPECT_THAT(s.full(), HasSubstr("cannot be         1: 1 to missing nodes"));
  EXPECT_EQ(*s.to_value().find("traffic")->find("ALL_GATHER")->find("bytes"), Value(5));
  EXPECT_EQ(*s.to_value().find("critical_path_ns"), Value(9000));
}

TEST(Statistics, HostileSizesDoNotOverflow) {
  StatisticsBuilder builder;
  for (int64_t id = 0; id < 3; ++id) {
    builder.add({.id = id, .type = graph::NodeType::kSend, .comm_size = INT64_MAX});
  }
  EXPECT_EQ(builder.finish("t.et").value().sends.bytes, INT64_MAX);
}

TEST(Dot, QuotesNamesAndDashesControl) {
  const std::string lines = dot_lines(
      {.id = 2, .name = "a\"b\n", .duration = {4000}, .data_deps = {0}, .ctrl_deps = {1}});
  EXPECT_THAT(lines, HasSubstr(R"(2 [label="2 a\"b?, 4 us", shape=box)"));
  EXPECT_THAT(lines, HasSubstr("  0 -> 2;\n"));
  EXPECT_THAT(lines, HasSubstr("  1 -> 2 [style=dashed];\n"));
}

TEST(Statistics, KnowWhatTheyCount) {
  StatisticsBuilder builder;
  EXPECT_DEATH(builder.add({.id = 3, .type = static_cast<graph::NodeType>(8)}),
               "node 3 is of type 8 and collective 0");
}

}  // namespace
}  // namespace tombolo::chakra
