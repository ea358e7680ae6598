#include "lab/wanem/lateness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace tombolo::wanem {
namespace {

TEST(Lateness, SmallNumbersAreExact) {
  Lateness late;
  for (const int64_t ns : {1, 2, 2, 3, 7}) late.add({ns});
  EXPECT_EQ(late.quantile(0.2).ns, 1);
  EXPECT_EQ(late.quantile(0.5).ns, 2);
  EXPECT_EQ(late.quantile(1).ns, 7);
  EXPECT_EQ(late.max().ns, 7);
}

TEST(Lateness, QuantilesAreAtMostAnEighthAbove) {
  Random random(1);
  Lateness late;
  std::vector<int64_t> all;
  for (int i = 0; i < 10'000; ++i) {
    all.push_back(static_cast<int64_t>(std::exp(random.uniform() * 43)));  // 1 ns to 150 years
    late.add({all.back()});
  }
  std::sort(all.begin(), all.end());
  for (const double q : {0.001, 0.1, 0.5, 0.9, 0.99, 1.0}) {
    const auto rank = static_cast<size_t>(std::ceil(q * 10'000)) - 1;
    const auto exact = static_cast<double>(all[rank]);
    const auto said = static_cast<double>(late.quantile(q).ns);
    EXPECT_GE(said, exact) << q;
    EXPECT_LE(said, exact * 1.126) << q;
  }
}

TEST(Lateness, EarlyIsNotLate) {
  Lateness late;
  EXPECT_EQ(late.quantile(0.5).ns, 0) << "of nothing";
  late.add({-5});
  late.add({INT64_MAX});
  EXPECT_EQ(late.quantile(0.5).ns, 0);
  EXPECT_EQ(late.quantile(1).ns, INT64_MAX);
}

TEST(LatenessDeathTest, AShareIsAShare) { EXPECT_DEATH(Lateness().quantile(99), "a share of 99"); }

}  // namespace
}  // namespace tombolo::wanem
