#include "decide/geo/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/random.h"

namespace tombolo::geo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Atlas' setting: a forward pass takes 1 s, a backward pass 2 s, a transfer C forward passes.
SelectionSetting atlas(const std::vector<int64_t>& gpus, int64_t ratio, int64_t partitions = 60,
                       int64_t microbatches = 60) {
  SelectionSetting setting;
  for (const int64_t count : gpus) {
    setting.sites.push_back({fmt::format("dc{}", setting.sites.size()), count, 1_s, 2_s});
  }
  setting.partitions = partitions;
  setting.pipelines_per_cell = ratio;
  setting.microbatches = microbatches;
  setting.link = [ratio](size_t, size_t, int64_t pipelines, int64_t) {
    return std::optional<CellLink>(
        {Seconds{static_cast<double>(ratio) / static_cast<double>(pipelines)}, 0_s});
  };
  setting.all_reduce = [](size_t, int64_t) { return 0_s; };
  return setting;
}

SelectionRow chosen(const SelectionSetting& setting) {
  const Result<SelectionResult> found = select_datacenters(setting);
  if (!found) throw std::runtime_error(found.error().text());
  return found->rows[found->chosen];
}

// --- Algorithm 1 ------------------------------------------------------------------------------

TEST(Select, ChoosesThePipelinesOfAtlasLists) {
  // 600 GPUs each, C = 4: 240 GPUs make a cell, so floor(600 n / 240) = 2, 5, 7, 10, 12 cells; 7
  // cells of 600 x 3 have room for 3 x floor(600 / 28) = 63 partitions. C = 2: 5, 10, 15, 20, 25.
  const int64_t at_4[] = {8, 20, 28, 40, 48};
  const int64_t at_2[] = {10, 20, 30, 40, 50};
  for (size_t n = 1; n <= 5; ++n) {
    EXPECT_EQ(chosen(atlas(std::vector<int64_t>(n, 600), 4)).pipelines, at_4[n - 1]) << n;
    EXPECT_EQ(chosen(atlas(std::vector<int64_t>(n, 600), 2)).pipelines, at_2[n - 1]) << n;
  }
}

TEST(Select, GivesMoreStagesToLargerDatacenters) {
  for (const int64_t ratio : {4, 2}) {
    // 32 pipelines: floor(600 / 32) = 18, floor(500 / 32) = 15, then 12, 9, 6: 60 in all.
    const SelectionRow row = chosen(atlas({600, 500, 400, 300, 200}, ratio));
    EXPECT_EQ(row.pipelines, 32);
    EXPECT_THAT(row.partitions, ElementsAre(18, 15, 12, 9, 6));
    EXPECT_EQ(row.unused_gpus, 2000 - 32 * 60);
  }
}

TEST(Select, SaysWhatTheFloorsLeaveUnused) {
  const Result<SelectionResult> found = select_datacenters(atlas({600}, 4));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rows[found->chosen].used_gpus, 480);
  EXPECT_EQ(found->rows[found->chosen].unused_gpus, 120);
  // One datacenter needs no cells: ten pipelines, in cells of 3, 3 and 4.
  ASSERT_TRUE(found->beyond);
  EXPECT_EQ(found->beyond->pipelines, 10);
  EXPECT_EQ(found->beyond->cells, 3);
  EXPECT_EQ(found->beyond->unused_gpus, 0);
}

TEST(Select, AnInfeasibleRowTakesForEver) {
  // 840 GPUs make 7 cells of 120, but floor(600 / 14) + floor(240 / 14) = 42 + 17 = 59.
  const Result<SelectionResult> found = select_datacenters(atlas({600, 240}, 2));
  ASSERT_TRUE(found);
  ASSERT_EQ(found->rows.size(), 7);
  EXPECT_FALSE(found->rows[6].feasible);
  EXPECT_EQ(found->rows[6].throughput(), 0);
  EXPECT_THAT(found->rows[6].obstacle, HasSubstr("room for 59 of 60 partitions"));
  EXPECT_EQ(found->rows[found->chosen].cells, 6);
}

TEST(Select, TheSmallestOfEqualThroughputsIsChosen) {
  // An all-reduce that eats what two more pipelines bring: 2 / 10 = 4 / 20 pipelines per second.
  SelectionSetting setting = atlas({8}, 2, 2, 1);  // a pipeline: (2 + 1 - 1) 3 s = 6 s
  setting.all_reduce = [](size_t, int64_t replicas) { return replicas == 2 ? 4_s : 14_s; };
  EXPECT_EQ(chosen(setting).cells, 1);
}

TEST(Select, TheTestbedOfThePaperIsInfeasible) {
  // 3 datacenters of 4 GPUs, P = 4, C = 3: floor(4 / 3) = 1 partition each, 3 of 4.
  const Result<SelectionResult> found = select_datacenters(atlas({4, 4, 4}, 3, 4, 4));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(found.error().text(), HasSubstr("room for 3 partitions, 1 too few"));
  EXPECT_THAT(found.error().text(), HasSubstr("dc0 with 4 GPUs for 1"));
  EXPECT_THAT(found.error().text(), HasSubstr("pipelines_per_cell = 2"));
}

TEST(Select, PipelinesShareTheBatchOfAJob) {
  // Two stages and no WAN: N pipelines with M microbatches take (M + 2 - 1) 3 s. 12 microbatches
  // are 12, 6, 4, 3, 3 for up to five pipelines: the fifth brings nothing.
  SelectionSetting setting = atlas({10}, 1, 2);
  setting.microbatches_together = 12;
  const Result<SelectionResult> found = select_datacenters(setting);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->rows.size(), 5);
  const int64_t microbatches[] = {12, 6, 4, 3, 3};
  for (size_t row = 0; row < 5; ++row) {
    EXPECT_EQ(found->rows[row].microbatches, microbatches[row]);
    EXPECT_EQ(found->rows[row].all_microbatches, 12);
    EXPECT_EQ(found->rows[row].total(), real(microbatches[row] + 1) * 3_s);
    EXPECT_NEAR(found->rows[row].throughput(), 12 / found->rows[row].total().value, 1e-12);
  }
  EXPECT_EQ(found->rows[found->chosen].cells, 4);
}

TEST(Select, APipelineWithoutAMicrobatchIsInfeasible) {
  SelectionSetting setting = atlas({10}, 2, 2);
  setting.microbatches_together = 3;
  const Result<SelectionResult> found = select_datacenters(setting);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rows[found->chosen].pipelines, 2);
  EXPECT_THAT(found->rows[1].obstacle, HasSubstr("3 microbatches for 4 pipelines"));
  setting.microbatches_together = 1;
  const Result<SelectionResult> none = select_datacenters(setting);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(none.error().text(), HasSubstr("one DP-cell of 2 pipelines needs as many"));
}

// --- Residency --------------------------------------------------------------------------------

TEST(Select, ADatacenterThatMustTakePartHoldsAPartition) {
  SelectionSetting setting = atlas({600, 100}, 2);
  const SelectionRow free = chosen(setting);
  EXPECT_THAT(free.partitions, ElementsAre(60, 0));  // 5 cells fit into the first alone
  setting.sites[1].must = true;
  const Result<SelectionResult> found = select_datacenters(setting);
  ASSERT_TRUE(found);
  for (const SelectionRow& row : found->rows) {
    if (row.feasible) {
      EXPECT_GE(row.partitions[1], 1) << row.cells;
    }
  }
  if (found->beyond) {
    EXPECT_GE(found->beyond->partitions[1], 1);
  }
}

TEST(Select, ADatacenterThatMustTakePartAndCannotIsNamed) {
  SelectionSetting setting = atlas({600, 3}, 4);
  setting.sites[1].must = true;
  const auto found = select_datacenters(setting);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(found.error().text(), HasSubstr("dc1 must take part, but has 3 GPUs"));
}

// --- Against brute force ----------------------------------------------------------------------

// The feasible throughput of each number of pipelines over each set of datacenters, written down
// anew: partitions from the first to the last of the set, as many as fit.
double best_by_brute_force(const SelectionSetting& setting, bool whole_cells) {
  const size_t n = setting.sites.size();
  int64_t all = 0;
  for (const SelectionSite& site : setting.sites) all += site.gpus;
  double best = 0;
  for (int64_t pipelines = 1; pipelines <= all; ++pipelines) {
    const int64_t per_cell = setting.pipelines_per_cell;
    if (whole_cells && pipelines % per_cell != 0) continue;
    if (setting.microbatches_together && pipelines > *setting.microbatches_together) break;
    const int64_t cells = (pipelines + per_cell - 1) / per_cell;
    for (size_t set = 1; set < (size_t{1} << n); ++set) {
      if (whole_cells && set + 1 != size_t{1} << n) continue;
      int64_t left = setting.partitions;
      std::vector<size_t> used;
      std::vector<int64_t> counts;
      for (size_t i = 0; i < n; ++i) {
        const int64_t take = std::min(left, setting.sites[i].gpus / pipelines);
        if ((set >> i & 1) == 0 || take == 0) continue;
        used.push_back(i);
        counts.push_back(take);
        left -= take;
      }
      if (left > 0) continue;
      Seconds slowest;
      for (int64_t c = 0; c < cells; ++c) {
        const int64_t size = pipelines / cells + (c < pipelines % cells ? 1 : 0);
        const int64_t shared = setting.microbatches_together.value_or(0);
        const int64_t most = shared / pipelines + (shared % pipelines != 0 ? 1 : 0);
        DpCell cell{{}, {}, size, shared > 0 ? most : setting.microbatches};
        for (size_t i = 0; i < used.size(); ++i) {
          const SelectionSite& site = setting.sites[used[i]];
          cell.parts.push_back({counts[i], site.forward, site.backward});
          if (i > 0) cell.links.push_back(*setting.link(used[i - 1], used[i], size, cells));
        }
        slowest = std::max(slowest, setting.cell_time(cell));
      }
      Seconds sum_time;
      for (const size_t i : used) sum_time = std::max(sum_time, setting.all_reduce(i, pipelines));
      const int64_t work = setting.microbatches_together.value_or(pipelines * setting.microbatches);
      best = std::max(best, static_cast<double>(work) / (slowest + sum_time).value);
    }
  }
  return best;
}

int64_t drawn_between(Random& random, int64_t min, int64_t max) {
  return min + static_cast<int64_t>(random.below(static_cast<uint64_t>(max - min + 1)));
}

// Up to three datacenters of up to 24 GPUs, links of their own, an all-reduce that grows.
SelectionSetting any_setting(Random& random) {
  std::vector<int64_t> gpus;
  for (int64_t n = drawn_between(random, 1, 3); n > 0; --n)
    gpus.push_back(drawn_between(random, 1, 24));
  const int64_t ratio = drawn_between(random, 1, 3);
  const int64_t partitions = drawn_between(random, 1, 5);
  SelectionSetting setting = atlas(gpus, ratio, partitions, drawn_between(random, 1, 6));
  for (SelectionSite& site : setting.sites) {
    site.forward = Seconds{static_cast<double>(drawn_between(random, 1, 3))};
    site.backward = Seconds{static_cast<double>(drawn_between(random, 1, 5))};
  }
  const double transfer = static_cast<double>(drawn_between(random, 0, 8));
  const double latency = static_cast<double>(drawn_between(random, 0, 3));
  setting.link = [=](size_t from, size_t to, int64_t pipelines, int64_t) {
    return std::optional<CellLink>({Seconds{transfer / static_cast<double>(pipelines)},
                                    Seconds{latency * static_cast<double>(from + to)}});
  };
  const double step = static_cast<double>(drawn_between(random, 0, 2));
  setting.all_reduce = [=](size_t site, int64_t replicas) {
    return Seconds{step * static_cast<double>((replicas - 1) * static_cast<int64_t>(site + 1))};
  };
  return setting;
}

TEST(SelectOracle, EqualsBruteForceOnSmallLists) {
  Random random(7);
  int feasible = 0, beyond = 0;
  for (int i = 0; i < 300; ++i) {
    SelectionSetting setting = any_setting(random);
    if (i % 3 == 0) setting.cell_time = gpipe_cell;
    if (i % 2 == 0) setting.microbatches_together = drawn_between(random, 1, 24);
    const auto found = select_datacenters(setting);
    const double whole = best_by_brute_force(setting, true);
    if (!found) {
      EXPECT_EQ(whole, 0) << found.error().text();
      continue;
    }
    ++feasible;
    const double ours = found->rows[found->chosen].throughput();
    EXPECT_NEAR(ours, whole, 1e-8 * whole) << "case " << i;
    const double any = best_by_brute_force(setting, false);
    beyond += found->beyond.has_value();
    EXPECT_NEAR(found->beyond ? found->beyond->throughput() : ours, any, 1e-8 * any) << i;
  }
  EXPECT_GT(feasible, 100);
  EXPECT_GT(beyond, 30);
}

TEST(SelectProperty, GpusAreConservedAndRowsAreWhole) {
  Random random(8);
  int feasible = 0;
  for (int i = 0; i < 200; ++i) {
    const SelectionSetting setting = any_setting(random);
    const auto found = select_datacenters(setting);
    if (!found) continue;
    std::vector<SelectionRow> rows = found->rows;
    if (found->beyond) rows.push_back(*found->beyond);
    for (const SelectionRow& row : rows) {
      if (!row.feasible) continue;
      ++feasible;
      int64_t all = 0;
      for (size_t s = 0; s < setting.sites.size(); ++s) {
        all += setting.sites[s].gpus;
        EXPECT_LE(row.partitions[s] * row.pipelines, setting.sites[s].gpus);
      }
      EXPECT_EQ(std::accumulate(row.partitions.begin(), row.partitions.end(), int64_t{0}),
                setting.partitions);
      EXPECT_EQ(row.used_gpus + row.unused_gpus, all);
      EXPECT_EQ(row.used_gpus, row.pipelines * setting.partitions);
    }
  }
  EXPECT_GT(feasible, 1000);
}

TEST(SelectProperty, MoreGpusInTheFirstDatacenterAreNeverWorseBeyond) {
  // With more GPUs every set of datacenters that fitted fits still, and more of its stages lie in
  // the first datacenter. The closed form does not care where a boundary lies; a part that becomes
  // empty takes its boundary with it. (1F1B played does care: greedy schedules have anomalies.)
  Random random(9);
  int grown = 0;
  for (int i = 0; i < 200; ++i) {
    SelectionSetting setting = any_setting(random);
    setting.cell_time = gpipe_cell;
    for (SelectionSite& site : setting.sites) site.forward = 1_s, site.backward = 2_s;
    setting.link = [](size_t, size_t, int64_t pipelines, int64_t) {
      return std::optional<CellLink>({Seconds{3.0 / static_cast<double>(pipelines)}, 1_s});
    };
    setting.all_reduce = [](size_t, int64_t replicas) {
      return Seconds{0.1 * static_cast<double>(replicas)};
    };
    const auto best = [](const Result<SelectionResult>& found) {
      if (!found) return 0.0;
      return found->beyond ? found->beyond->throughput() : found->rows[found->chosen].throughput();
    };
    const double before = best(select_datacenters(setting));
    setting.sites[0].gpus += drawn_between(random, 1, 6);
    const double after = best(select_datacenters(setting));
    EXPECT_GE(after, before * (1 - 1e-9)) << "case " << i;
    grown += after > before;
  }
  EXPECT_GT(grown, 30);
}

TEST(SelectProperty, ScalingAllTimesScalesTheAnswer) {
  Random random(10);
  int feasible = 0;
  for (int i = 0; i < 100; ++i) {
    const SelectionSetting one = any_setting(random);
    SelectionSetting ten = one;
    for (SelectionSite& site : ten.sites) {
      site.forward = site.forward * 10;
      site.backward = site.backward * 10;
    }
    ten.link = [&](size_t from, size_t to, int64_t pipelines, int64_t cells) {
      const auto link = one.link(from, to, pipelines, cells);
      return std::optional<CellLink>({link->occupancy * 10, link->latency * 10});
    };
    ten.all_reduce = [&](size_t site, int64_t replicas) {
      return one.all_reduce(site, replicas) * 10;
    };
    const auto before = select_datacenters(one), after = select_datacenters(ten);
    ASSERT_EQ(before.has_value(), after.has_value());
    if (!before) continue;
    for (size_t row = 0; row < before->rows.size(); ++row) {
      if (!before->rows[row].feasible) continue;
      ++feasible;
      const double expected = 10 * before->rows[row].total().value;
      EXPECT_NEAR(after->rows[row].total().value, expected, 1e-6 * expected);
    }
  }
  EXPECT_GT(feasible, 400);
}

// --- What callers and laws promise --------------------------------------------------------------

TEST(SelectDeathTest, ALawIsNotFasterThanItsBound) {
  SelectionSetting setting = atlas({12, 12}, 2, 4, 4);
  setting.cell_time = [](const DpCell&) { return 1_s; };
  EXPECT_DEATH(static_cast<void>(select_datacenters(setting)),
               "a cell takes 1 s, and none takes less than 21 s");
}

TEST(SelectDeathTest, SitesAndPipelinesAreCounted) {
  SelectionSetting setting = atlas({12, 12}, 2, 4, 4);
  EXPECT_DEATH(fill_sites(setting, 0), "0 pipelines");
  EXPECT_DEATH(fill_sites(setting, 1, {true}), "a mask of 1 sites of 2");
  setting.sites[1].gpus = -1;
  EXPECT_DEATH(static_cast<void>(select_datacenters(setting)), "dc1 has -1 GPUs");
}

}  // namespace
}  // namespace tombolo::geo
