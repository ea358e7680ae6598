#include "decide/geo/mixed_partition.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "base/random.h"

namespace tombolo::geo {
namespace {

StageTable table_of(int64_t layers, double each, double fixed, double end_each = 0) {
  StageTable table;
  table.rows.emplace_back();
  for (int64_t l = 1; l <= layers; ++l) {
    const auto n = static_cast<double>(l);
    table.rows[0].push_back({each * n + fixed, end_each * n});
  }
  return table;
}

TEST(MixedPartition, SlowerDevicesGetFewerLayers) {
  // Layers take 1 on the first stage and 2 on the second: of 6, four and two make both take 4.
  const StageTable fast = table_of(6, 1, 0), slow = table_of(6, 2, 0);
  const PartitionProblem problem{.layers = 6,
                                 .microbatches = 10,
                                 .stages = {{&fast, {6}}, {&slow, {6}}},
                                 .hops = {cost::Hop{}}};
  const auto best = best_partition(problem, 1e9);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->layers, (std::vector<int64_t>{4, 2}));
  EXPECT_DOUBLE_EQ(best->total, 8 + 9 * 4);
  EXPECT_FALSE(best_partition(problem, 44)) << "nothing is below its own optimum";
  EXPECT_TRUE(best_partition(problem, 44.1));
}

TEST(MixedPartition, OneMicrobatchTakesTheShortestRoundTrip) {
  // With a single microbatch nothing overlaps: the slow stage gets as little as possible.
  const StageTable fast = table_of(6, 1, 0), slow = table_of(6, 2, 0);
  const PartitionProblem problem{.layers = 6,
                                 .microbatches = 1,
                                 .stages = {{&fast, {6}}, {&slow, {6}}},
                                 .hops = {cost::Hop{}}};
  EXPECT_EQ(best_partition(problem, 1e9)->layers, (std::vector<int64_t>{5, 1}));
}

TEST(MixedPartition, MemoryBindsWhereTimeWouldNot) {
  const StageTable fast = table_of(6, 1, 0), slow = table_of(6, 2, 0);
  PartitionProblem problem{.layers = 6,
                           .microbatches = 10,
                           .stages = {{&fast, {3}}, {&slow, {6}}},
                           .hops = {cost::Hop{}}};
  EXPECT_EQ(best_partition(problem, 1e9)->layers, (std::vector<int64_t>{3, 3}));
  problem.stages[1].most = {2};
  EXPECT_FALSE(best_partition(problem, 1e9));
}

// Every way to write `layers` as a sum over the stages.
void for_each_partition(int64_t layers, size_t stages,
                        const std::function<void(const std::vector<int64_t>&)>& visit) {
  std::vector<int64_t> parts;
  const std::function<void(int64_t)> choose = [&](int64_t left) {
    if (parts.size() + 1 == stages) {
      parts.push_back(left);
      visit(parts);
      parts.pop_back();
      return;
    }
    const auto after = static_cast<int64_t>(stages - parts.size() - 1);
    for (int64_t l = 1; l <= left - after; ++l) {
      parts.push_back(l);
      choose(left - l);
      parts.pop_back();
    }
  };
  choose(layers);
}

TEST(MixedPartition, EqualsBruteForceOverAllPartitions) {
  Random random(3);
  int infeasible = 0;
  for (int round = 0; round < 600; ++round) {
    const auto stages = 1 + static_cast<size_t>(random.below(5));
    PartitionProblem problem;
    problem.layers = static_cast<int64_t>(stages + random.below(9));
    problem.microbatches = 1 + static_cast<int64_t>(random.below(12));
    std::vector<StageTable> tables;
    for (size_t s = 0; s < stages; ++s) {
      // Some cases with two kinds of layers: the first two take half.
      const double each = 0.5 + static_cast<double>(random.below(3));
      const double fixed = random.uniform();
      const double end = random.below(2) == 0 ? 0 : 3 * random.uniform();
      tables.push_back(table_of(problem.layers, each, fixed, end));
      if (round % 3 == 0) {
        const auto uniform = tables.back().rows[0];
        tables.back().rows.assign(3, uniform);
        for (size_t r = 0; r < 2; ++r) {
          for (size_t l = 0; l < uniform.size(); ++l) {
            const auto halves = static_cast<double>(std::min(l + 1, 2 - r));
            tables.back().rows[r][l].pass -= each / 2 * halves;
          }
        }
      }
    }
    for (size_t s = 0; s < stages; ++s) {
      PartitionStage stage{&tables[s], {}};
      for (size_t r = 0; r < tables[s].rows.size(); ++r) {
        stage.most.push_back(1 + static_cast<int64_t>(random.below(10)));
      }
      problem.stages.push_back(stage);
      const double transfer = random.below(2) == 0 ? 0.05 : 3 * random.uniform();
      const double exposed = random.below(3) == 0 ? transfer / 2 : transfer;
      if (s > 0) {
        problem.hops.push_back(
            {Seconds{transfer}, Seconds{exposed}, Seconds{transfer * random.uniform()}});
      }
    }
    std::optional<Partition> expected;
    for_each_partition(problem.layers, stages, [&](const std::vector<int64_t>& layers) {
      int64_t first = 0;
      for (size_t s = 0; s < stages; ++s) {
        const PartitionStage& stage = problem.stages[s];
        if (layers[s] > stage.most[stage.table->row(first)]) return;
        first += layers[s];
      }
      const Partition one = price_partition(problem, layers);
      if (!expected || one.total < expected->total) expected = one;
    });
    const auto best = best_partition(problem, 1e9);
    ASSERT_EQ(best.has_value(), expected.has_value()) << "round " << round;
    if (!best) {
      ++infeasible;
      continue;
    }
    EXPECT_NEAR(best->total, expected->total, 1e-9 * expected->total) << "round " << round;
  }
  EXPECT_GT(infeasible, 20);
  EXPECT_LT(infeasible, 300);
}

TEST(MixedPartitionDeathTest, StagesHaveHopsTablesAndLayers) {
  const StageTable table = table_of(6, 1, 0);
  PartitionProblem problem{.layers = 6,
                           .microbatches = 10,
                           .stages = {{&table, {6}}, {&table, {6}}},
                           .hops = {cost::Hop{}}};
  EXPECT_DEATH(price_partition(problem, {6, 0}), "stage 1 of 2 has 0 layers");
  EXPECT_DEATH(price_partition(problem, {6, 1}), "the partition does not cover 6 layers");
  problem.stages[0].most = {6, 6};
  EXPECT_DEATH(best_partition(problem, 1e9), "2 limits of memory for 1 rows of a stage");
  problem.hops.clear();
  EXPECT_DEATH(best_partition(problem, 1e9), "for 2 stages with 0 hops");
}

}  // namespace
}  // namespace tombolo::geo
