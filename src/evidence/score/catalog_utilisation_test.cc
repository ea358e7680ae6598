#include "evidence/score/catalog_utilisation.h"

#include <gtest/gtest.h>

#include <set>

#include "predict/cost/iteration.h"
#include "predict/published/reference.h"

namespace tombolo::score {
namespace {

class CatalogUtilisation : public ::testing::TestWithParam<bool> {};

// Most of these cells have never been measured, so none may be better than the best that anyone has
// measured on such a device.
TEST_P(CatalogUtilisation, IsNowhereAboveWhatWasPublished) {
  const Result<CatalogTable> table = catalog_utilisation(GetParam());
  ASSERT_TRUE(table) << table.error().text();
  std::set<std::string> devices;
  size_t cells = 0;
  for (const CatalogRow& row : table->rows) {
    devices.insert(row.site.device.name);
    for (const auto& cell : row.cells) cells += cell ? 1 : 0;
  }
  EXPECT_EQ(devices.size() + 1, cluster::catalog_names().size());  // all but the CPU
  EXPECT_EQ(table->rows.size(), devices.size() * 4);
  EXPECT_GT(cells, table->rows.size() * table->stacks.size() * 3 / 4);
  for (const CatalogExcess& one : above_published(*table)) {
    ADD_FAILURE() << one.model << " on " << one.device << ", stack " << one.stack << ": "
                  << 100 * one.mfu << " % for " << 100 * one.limit.mfu << " % (" << one.limit.run
                  << ")";
  }
}

INSTANTIATE_TEST_SUITE_P(, CatalogUtilisation, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "mixtures" : "dense"; });

// A cell is what an estimate says of its configuration: Llama 3 8B on 32 A100 with the default
// stack.
TEST(CatalogCells, AgreeWithTheLaw) {
  const CatalogTable table = *catalog_utilisation(false);
  for (const CatalogRow& row : table.rows) {
    if (row.site.device.name != "a100-80g" || row.model.name != "llama3-8b") continue;
    EXPECT_EQ(row.site.devices(), 32);
    const CatalogCell& cell = *row.cells.back();
    ASSERT_EQ(table.stacks.back(), "tombolo");
    const auto law = *cost::IterationLaw::make(row.model, row.site, {});
    const cost::Configuration& c = cell.configuration;
    EXPECT_LE(law.memory(c).total(), row.site.device.memory);
    EXPECT_NEAR(cell.mfu,
                cost::model_flops(row.model, c.global_batch).value /
                    (312e12 * 32 * law.time(c).total().value),
                1e-12);
    return;
  }
  FAIL() << "no such row";
}

// A bound that a cell passes is reported with all that tells which.
TEST(CatalogCells, AboveTheBoundAreNamed) {
  CatalogTable table{.stacks = {"nemo"}};
  CatalogRow row;
  row.site.device.name = "moon";
  row.model.name = "gpt";
  row.cells = {CatalogCell{.mfu = 0.6}};
  table.rows = {row, row};
  table.limits = {{.mfu = 0.6}, {.mfu = 0.5, .run = "one"}};
  const auto above = above_published(table);
  ASSERT_EQ(above.size(), 1u);
  EXPECT_EQ(above[0].device, "moon");
  EXPECT_EQ(above[0].limit.run, "one");
}

}  // namespace
}  // namespace tombolo::score
