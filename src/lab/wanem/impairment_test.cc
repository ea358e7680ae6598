#include "lab/wanem/impairment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tombolo::wanem {
namespace {

struct Count {
  double lost = 0;
  double bursts = 0;
};

Count lose(Loss& loss, uint64_t segments, uint32_t at_once = 44) {
  Count count;
  bool before = false;
  for (uint64_t left = segments; left > 0;) {
    const Loss::Run run = loss.take(static_cast<uint32_t>(std::min<uint64_t>(left, at_once)));
    EXPECT_GT(run.length, 0u);
    left -= run.length;
    if (run.lost) count.lost += run.length;
    if (run.lost && !before) ++count.bursts;
    before = run.lost;
  }
  return count;
}

TEST(Loss, NothingIsLostWhereNothingIs) {
  Loss loss(0, 1, Random(1));
  EXPECT_EQ(lose(loss, 1'000'000).lost, 0);
}

TEST(Loss, SingleLossesLieInTheirBinomialBand) {
  // 1,000 seeds with n = 10,000 and p = 1 %: 100 lost each, deviation sqrt(n p (1 - p)) = 9.95.
  // Outside three deviations lie 0.3 % of them, about 3 of 1,000; more than 15 have a probability
  // below 1e-6. All together lie within four deviations with a confidence of 99.99 %.
  const double n = 10'000, p = 0.01, deviation = std::sqrt(n * p * (1 - p));
  int outside = 0;
  double sum = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Loss loss(p, 1, Random(seed));
    const double lost = lose(loss, 10'000).lost;
    outside += std::abs(lost - n * p) > 3 * deviation;
    sum += lost;
  }
  EXPECT_LE(outside, 15);
  EXPECT_NEAR(sum, 1000 * n * p, 4 * deviation * std::sqrt(1000.0));
}

TEST(Loss, BurstsHaveTheirShareAndTheirMeanLength) {
  for (const double burst : {2.0, 5.0, 40.0}) {
    for (const double p : {0.001, 0.02, 0.3}) {
      Loss loss(p, burst, Random(7).stream("burst"));
      const double n = 4e6;
      const Count count = lose(loss, static_cast<uint64_t>(n));
      // A two-state chain with correlation r between neighbours has the variance of independent
      // losses times (1 + r) / (1 - r). Four deviations: 99.99 %.
      const double r = 1 - 1 / burst - p / (burst * (1 - p));
      EXPECT_NEAR(count.lost, n * p, 4 * std::sqrt(n * p * (1 - p) * (1 + r) / (1 - r)))
          << burst << " " << p;
      // Lengths are geometric with the mean b: deviation sqrt(b (b - 1)).
      EXPECT_NEAR(count.lost / count.bursts, burst,
                  4 * std::sqrt(burst * (burst - 1) / count.bursts) + 1e-9)
          << burst << " " << p;
    }
  }
}

TEST(Loss, ABurstOfOneMeansEachByItself) {
  // Independent losses follow each other by chance: the mean burst is 1 / (1 - p) = 1.25.
  Loss loss(0.2, 1, Random(3));
  const Count count = lose(loss, 1'000'000);
  EXPECT_NEAR(count.lost / count.bursts, 1.25, 0.01);
}

TEST(Loss, TheFirstSegmentIsLostAsOftenAsAnyOther) {
  int lost = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Loss loss(0.3, 20, Random(seed));
    lost += loss.take(1).lost;
  }
  EXPECT_NEAR(lost, 300, 4 * std::sqrt(1000 * 0.3 * 0.7));  // 99.99 %
}

TEST(Loss, DoesNotDependOnHowSegmentsAreBundled) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    std::vector<bool> fates[2];
    for (const uint32_t at_once : {1u, 44u}) {
      Loss loss(0.1, 3, Random(seed));
      auto& fate = fates[at_once > 1];
      while (fate.size() < 4400) {
        const Loss::Run run =
            loss.take(std::min(at_once, 4400 - static_cast<uint32_t>(fate.size())));
        fate.insert(fate.end(), run.length, run.lost);
      }
    }
    EXPECT_EQ(fates[0], fates[1]) << "seed " << seed;
  }
}

TEST(Jitter, HasItsDeviationAndNoMean) {
  // 10,000 draws ten memories apart. The mean lies within 4 / sqrt(n) = 4 % of a deviation, the
  // deviation within 4 / sqrt(2 n) = 2.9 % (99.99 % each).
  Jitter jitter({1'000'000}, Random(1));
  double sum = 0, squares = 0;
  const int n = 10'000;
  for (int i = 0; i < n; ++i) {
    const double ms = static_cast<double>(jitter.at({int64_t{i} * 1'000'000'000}).ns) * 1e-6;
    sum += ms;
    squares += ms * ms;
  }
  EXPECT_NEAR(sum / n, 0, 0.04);
  EXPECT_NEAR(std::sqrt(squares / n), 1, 0.029);
}

TEST(Jitter, KeepingTheOrderCostsLittle) {
  // A packet every 12 us for 20 s, and nothing may overtake: what each waits for those before it.
  for (const int64_t deviation_us : {100, 1000, 10'000}) {
    Jitter jitter({deviation_us * 1000}, Random(5));
    int64_t last = INT64_MIN;
    double waited = 0;
    const int64_t n = 20'000'000 / 12;
    for (int64_t i = 0; i < n; ++i) {
      const SimTime now{i * 12'000};
      const int64_t wanted = now.ns + jitter.at(now).ns;
      last = std::max(last, wanted);
      waited += static_cast<double>(last - wanted);
    }
    EXPECT_LT(waited / static_cast<double>(n) / static_cast<double>(deviation_us * 1000), 0.1)
        << deviation_us;
  }
}

TEST(Jitter, IsOffWhereThereIsNone) {
  Jitter jitter({0}, Random(1));
  EXPECT_EQ(jitter.at({5}), SimDuration{});
}

TEST(ImpairmentDeathTest, ChancesAreChances) {
  EXPECT_DEATH(Loss(1, 1, Random(1)), "a loss of 1 in bursts of 1");
  EXPECT_DEATH(Loss(0.1, 0.5, Random(1)), "a loss of 0.1 in bursts of 0.5");
  EXPECT_DEATH(Loss().take(0), "the fate of no segments");
  EXPECT_DEATH(Jitter({-1}, Random(1)), "a deviation of -1 ns");
}

}  // namespace
}  // namespace tombolo::wanem
