#include "base/quantiles.h"

#include <gtest/gtest.h>

namespace tombolo {
namespace {

TEST(Median, LiesInTheMiddle) {
  EXPECT_EQ(median(std::vector<double>{3}), 3);
  EXPECT_EQ(median(std::vector<double>{9, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{4, 1, 2, 9}), 3);
  EXPECT_EQ(median(std::vector<SimDuration>{{5}, {1}, {2}, {9}}).ns, 3);  // 3.5
  EXPECT_EQ(median_high(std::vector<int>{4, 1, 2, 9}), 4);
  EXPECT_EQ(median_high(std::vector<int>{9, 1, 2}), 2);
}

// numpy.quantile([1, 2, 4, 8], [0, 0.1, 0.5, 0.9, 1])
TEST(Quantile, IsThatOfNumpy) {
  const std::vector<double> values = {8, 1, 4, 2};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.1), 1.3);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 6.8);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 8);
}

TEST(Statistics, OfNothingAreABug) {
  EXPECT_DEATH(median(std::vector<double>{}), "a median of nothing");
  EXPECT_DEATH(median(std::vector<SimDuration>{}), "a median of nothing");
  EXPECT_DEATH(median_high(std::vector<int>{}), "a median of nothing");
  EXPECT_DEATH(quantile({1, 2}, 1.5), "quantile 1.5 of 2 values");
}

}  // namespace
}  // namespace tombolo
