#include "evidence/reproduce/reproduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace tombolo::reproduce {
namespace {

using ::testing::HasSubstr;

TEST(Reproduce, EveryClaimHolds) {
  std::set<std::string> names;
  for (const Table& table : published_tables()) {
    EXPECT_TRUE(names.insert(table.name).second) << table.name << " twice";
    EXPECT_FALSE(table.source.empty()) << table.name;
    EXPECT_FALSE(table.rows.empty()) << table.name;
    for (const Row& row : table.rows) {
      EXPECT_FALSE(row.fails()) << table.name << ": " << row.name << ": " << row.ours << " for "
                                << row.published << ", band " << row.band;
    }
  }
}

// The error of DHelix' gains in points of the gain itself, by barrier. 20 us was committed to.
TEST(Reproduce, MeanErrorsOfDHelixGains) {
  const auto error_of = [](const char* name) {
    const std::vector<Table> tables = *reproduce(name);
    double sum = 0;
    for (const Row& row : tables[0].rows) sum += std::abs(row.ours - row.published);
    return sum / static_cast<double>(tables[0].rows.size());
  };
  EXPECT_NEAR(error_of("dhelix/gains"), 0.068, 0.001);
  EXPECT_NEAR(error_of("dhelix/gains-100us"), 0.059, 0.001);
  EXPECT_NEAR(error_of("dhelix/gains-200us"), 0.050, 0.001);
}

TEST(Reproduce, AFigureOutsideItsBandIsNotOk) {
  EXPECT_TRUE((Row{"a", 102, 100, "s", 0.03}.ok()));
  EXPECT_FALSE((Row{"a", 104, 100, "s", 0.03}.ok()));
  EXPECT_FALSE((Row{"a", 96, 100, "s", 0.03}.ok()));
  EXPECT_FALSE((Row{"a", 0.0 / 0.0, 100, "s", 0.03}.ok()));
  EXPECT_NEAR((Row{"a", 96, 100, "s", 0.03}.relative_error()), -0.04, 1e-12);
}

TEST(Reproduce, AMissWithAReasonFailsNothingAndIsNotOk) {
  const Row miss{"a", 104, 100, "s", 0, "printed upside down"};
  EXPECT_FALSE(miss.ok());
  EXPECT_FALSE(miss.fails());
  EXPECT_TRUE((Row{"a", 104, 100, "s", 0.03}.fails()));
}

TEST(Reproduce, AFigureThatIsNotComputedFailsUnlessItSaysWhy) {
  const Row open{"a", kNotComputed, 100, "s", 0, "the machine is gone"};
  EXPECT_FALSE(open.computed());
  EXPECT_FALSE(open.ok());
  EXPECT_FALSE(open.fails());
  EXPECT_TRUE((Row{"a", kNotComputed, 100, "s", 0.5}.fails()));
}

// The rates of figure 14 by hand: 137 / (2 * 300 + 2 * 99) s carry 21.46 MB of 704, and 240 / 798 s
// at a tenth of that bandwidth 3.76 MB.
TEST(Reproduce, StellaTrainsRatesFollowFromItsBatches) {
  const std::vector<Table> tables = *reproduce("stellatrain/figure-14");
  ASSERT_EQ(tables.size(), 1);
  EXPECT_NEAR(tables[0].rows[0].ours, 96.9518, 1e-4);
  EXPECT_NEAR(tables[0].rows[1].ours, 99.4660, 1e-4);
  EXPECT_TRUE(tables[0].rows[0].ok() && tables[0].rows[1].ok());
}

TEST(Reproduce, ByTableByPaperOrAll) {
  EXPECT_EQ(reproduce("rail-only/table-4")->size(), 1);
  EXPECT_GE(reproduce("rail-only")->size(), 2);
  EXPECT_EQ(reproduce("")->size(), published_tables().size());
  const auto none = reproduce("rail-only/table-5");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnusable);
  EXPECT_THAT(none.error().text(), HasSubstr("rail-only/table-4"));
}

TEST(RowDeathTest, IsHeldAgainstSomething) {
  EXPECT_DEATH((Row{.name = "a", .ours = 1, .published = 0, .unit = "s"}.relative_error()),
               "a: nothing is relative to 0 s");
  EXPECT_DEATH((Row{.name = "a", .ours = 1, .published = 1, .unit = "s", .band = -1}.ok()),
               "a: a band of -1");
}

}  // namespace
}  // namespace tombolo::reproduce
