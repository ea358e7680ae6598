#include "lab/wanem/fluctuation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tombolo::wanem {
namespace {

double mbps(BytesPerSecond rate) { return rate / 1_Mbps; }

TEST(StellaTrainFluctuation, StaysWithinItsRangeAndMeetsItsMean) {
  for (const BytesPerSecond mean : {kStellaTrainMean, kStellaTrainEvaluationMean}) {
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      const auto trace = stellatrain_fluctuation({.seed = seed, .mean = mean});
      ASSERT_TRUE(trace) << trace.error().text();
      EXPECT_EQ(trace->steps().size(), 1200u);
      EXPECT_EQ(trace->period(), SimDuration{600'000'000'000});
      double low = 1e9, high = 0;
      for (const cluster::RateTrace::Step& step : trace->steps()) {
        low = std::min(low, mbps(step.rate));
        high = std::max(high, mbps(step.rate));
      }
      EXPECT_GE(low, 50 - 1e-9) << "seed " << seed;
      EXPECT_LE(high, 600 + 1e-9) << "seed " << seed;
      EXPECT_GT(high, 2 * low) << "it does fluctuate, seed " << seed;
      // Rounding to 0.1 Mbps moves each step by 0.05 Mbps at most, and so the mean.
      EXPECT_NEAR(mbps(trace->mean()), mbps(mean), 0.05) << "seed " << seed;
    }
  }
}

TEST(StellaTrainFluctuation, WandersThroughItsRangeInTime) {
  // In ten hours it comes near both ends.
  const auto trace = stellatrain_fluctuation({.duration = 36'000_s});
  ASSERT_TRUE(trace);
  const auto [low, high] =
      std::minmax_element(trace->steps().begin(), trace->steps().end(),
                          [](const auto& a, const auto& b) { return a.rate < b.rate; });
  EXPECT_LT(mbps(low->rate), 55);
  EXPECT_GT(mbps(high->rate), 550);
  // Neighbours are alike: half a second is a fortieth of the memory.
  double apart = 0, spread = 0;
  for (size_t i = 1; i < trace->steps().size(); ++i) {
    apart += std::abs(mbps(trace->steps()[i].rate - trace->steps()[i - 1].rate));
    spread += std::abs(mbps(trace->steps()[i].rate - trace->mean()));
  }
  EXPECT_LT(apart, spread / 2);
}

TEST(StellaTrainFluctuation, TheSameSeedGivesTheSameBytes) {
  const auto csv = [](uint64_t seed) {
    return cluster::to_csv(*stellatrain_fluctuation({.seed = seed}));
  };
  EXPECT_EQ(csv(3), csv(3));
  EXPECT_NE(csv(3), csv(4));
  const auto again = cluster::parse_rate_trace(csv(3), "again.csv");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(cluster::to_csv(*again), csv(3));
}

TEST(StellaTrainFluctuation, RefusesWhatCannotBe) {
  EXPECT_FALSE(stellatrain_fluctuation({.mean = 50_Mbps}));
  EXPECT_FALSE(stellatrain_fluctuation({.mean = BytesPerSecond{NAN}}));
  EXPECT_FALSE(stellatrain_fluctuation({.step = 0_s}));
  EXPECT_FALSE(stellatrain_fluctuation({.duration = 1_s, .step = 2_s}));
  EXPECT_FALSE(stellatrain_fluctuation({.duration = 1e9_s}));
}

}  // namespace
}  // namespace tombolo::wanem
