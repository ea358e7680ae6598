#include "evidence/reproduce/reproduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "predict/cost/diloco_utilisation.h"

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

// Cells of DiLoCo's table 6 with this many bits of a parameter, by how many steps of the grid they are
// off: every rate of the grid is tried, and beyond its end.
std::map<long, int> diloco_cells(double bits, double hidden, bool last_column) {
  std::map<long, int> cells;
  const std::pair<double, double> models[] = {{10e9, 0.8}, {405e9, 26}, {671e9, 20}};
  const std::vector<Table> tables = *reproduce("diloco");
  EXPECT_EQ(tables.size(), 3);
  for (size_t model = 0; model < tables.size(); ++model) {
    size_t row = 0;
    EXPECT_EQ(tables[model].rows.size(), 25);
    for (const int64_t every : {1, 10, 50, 100, 300}) {
      for (const double utilisation : {0.5, 0.8, 0.9, 0.95, 0.99}) {
        const auto& [parameters, step] = models[model];
        const Row& printed = tables[model].rows[row++];
        const cost::DilocoSteps of{parameters, Seconds{step}, every, bits, hidden};
        const auto rate = [](long k) {
          return std::pow(10, 4.0 * static_cast<double>(k) / 49 - 1);
        };
        long first = 0;
        while (cost::diloco_utilisation(of, rate(first) * 1_Gbps) < utilisation) ++first;
        if (bits == cost::kDilocoBits && hidden == 2.0 / 3) {
          EXPECT_NEAR(printed.ours, rate(first), 1e-9) << printed.name;
        }
        const long theirs = std::lround((std::log10(printed.published) + 1) * 49 / 4);
        if ((utilisation == 0.99) == last_column) ++cells[first - theirs];
      }
    }
  }
  return cells;
}

TEST(Reproduce, DilocosTableIsWithinOneStepOfItsGridWithTwelveBits) {
  EXPECT_EQ(diloco_cells(12, 2.0 / 3, false), (std::map<long, int>{{-1, 9}, {0, 39}, {1, 12}}));
  EXPECT_EQ(diloco_cells(12, 2.0 / 3, true),
            (std::map<long, int>{{-3, 1}, {-2, 1}, {-1, 1}, {0, 10}, {1, 2}}));
}

TEST(Reproduce, DilocosTableIsNotWithinOneStepOtherwise) {
  EXPECT_EQ(diloco_cells(16, 2.0 / 3, false),
            (std::map<long, int>{{0, 1}, {1, 28}, {2, 30}, {3, 1}}));
  EXPECT_EQ(diloco_cells(12, 0, false).rbegin()->first, 14);  // nothing hidden
}

TEST(Reproduce, ByTableByPaperOrAll) {
  EXPECT_EQ(reproduce("rail-only/table-4")->size(), 1);
  EXPECT_GE(reproduce("rail-only")->size(), 2);
  EXPECT_EQ(reproduce("")->size(), published_tables().size());
  size_t by_paper = 0;  // each is found under its own paper, and no table under another's
  std::set<std::string> papers;
  for (const Table& table : published_tables()) {
    papers.insert(table.name.substr(0, table.name.find('/')));
  }
  for (const std::string& paper : papers) by_paper += reproduce(paper)->size();
  EXPECT_EQ(by_paper, published_tables().size());
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
