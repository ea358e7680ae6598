#include "steer/tune/convergence_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

namespace tombolo::tune {
namespace {

using ::testing::HasSubstr;

// N(0, 1) below 0: 1 / sqrt(2 pi). Surely 2 below 5: 3; surely above: 0. N(1, 4) below 2, z = 1/2:
// 1 * Phi(1/2) + 2 phi(1/2) = 0.691462 + 2 * 0.352065.
TEST(ExpectedImprovement, IsTheClosedForm) {
  EXPECT_NEAR(expected_improvement({0, 1}, 0), 1 / std::sqrt(2 * M_PI), 1e-12);
  EXPECT_EQ(expected_improvement({2, 0}, 5), 3);
  EXPECT_EQ(expected_improvement({7, 0}, 5), 0);
  EXPECT_NEAR(expected_improvement({1, 4}, 2), 0.691462461 + 2 * 0.352065327, 1e-8);
  EXPECT_EQ(expected_improvement({1e6, 1}, 0), 0);
}

constexpr double kBaseLoss = 2.5;

// Best at a batch of 128 without compression and at 512 with nearly all left out.
double increase(double rate, double batch) {
  const double away = std::log2(batch) - 7 - 2 * rate;
  return 0.02 + 0.1 * rate * rate + 0.05 * away * away;
}

Result<double> train(double rate, int64_t batch, int staleness) {
  if (staleness == 0) return kBaseLoss;
  return kBaseLoss * (1 + increase(rate, static_cast<double>(batch)));
}

constexpr ProbeBounds kBounds{.batch_min = 16, .batch_max = 1024};

TEST(ConvergenceProfile, OfThirtyProbesKnowsTheBestBatchOfAnyRate) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    const auto profile = fit_profile(train, kBounds, 30, Random(seed));
    ASSERT_TRUE(profile) << profile.error().text();
    ASSERT_EQ(profile->record().probes.size(), 30);
    for (const double rate : {0.05, 0.3, 0.5, 0.7, 0.95}) {
      double best = 0, least = kInfinity;
      for (double batch = 16; batch <= 1024; ++batch) {
        const double believed = profile->loss_increase(rate, batch).mean;
        if (believed < least) std::tie(least, best) = std::pair(believed, batch);
      }
      // What the batch that it calls best costs more than the truly best one: the parabola's part.
      EXPECT_LT(increase(rate, best) - 0.02 - 0.1 * rate * rate, 0.01)
          << "seed " << seed << ", rate " << rate << ", batch " << best;
    }
  }
}

// The fifth probe on are chosen, so that they are nearer to the best batch than drawn ones are: of
// log2 from 4 to 10, at most one step away on the median.
TEST(ConvergenceProfile, ProbesWhereLessLossIsExpected) {
  const auto profile = fit_profile(train, kBounds, 30, Random(1));
  ASSERT_TRUE(profile);
  int near = 0;
  for (size_t i = 4; i < 30; ++i) {
    const ConvergenceProbe& probe = profile->record().probes[i];
    near += std::abs(std::log2(static_cast<double>(probe.batch)) - 7 - 2 * probe.rate) < 1;
  }
  EXPECT_GE(near, 14);
}

TEST(ConvergenceProfile, IsTheSameForTheSameSeed) {
  const auto a = fit_profile(train, kBounds, 12, Random(8)),
             b = fit_profile(train, kBounds, 12, Random(8)),
             c = fit_profile(train, kBounds, 12, Random(9));
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(a->text(), b->text());
  EXPECT_NE(a->text(), c->text());
}

// Losses at 100 and 200 are known to be the same, so that the batch half-way between them in
// logarithms is known least of those between, and the bounds beyond them even less.
TEST(NextProbe, GoesWhereLeastIsKnownAmongEqualLosses) {
  ProbeRecord record{.bounds = {.batch_min = 100, .batch_max = 400}};
  for (const int64_t batch : {100, 200}) {
    for (const double rate : {0.1, 0.2, 0.3}) record.probes.push_back({rate, batch, 0.1 * rate});
  }
  const auto profile = ConvergenceProfile::of(record);
  ASSERT_TRUE(profile);
  EXPECT_EQ(next_probe(*profile, 0.2), 400);
}

TEST(ConvergenceProfile, ReadsBackWhatItWrites) {
  const auto profile = fit_profile(train, kBounds, 6, Random(2));
  ASSERT_TRUE(profile);
  const auto again = ConvergenceProfile::parse(profile->text(), "profile.json");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->text(), profile->text());
  const Belief a = profile->loss_increase(0.4, 100), b = again->loss_increase(0.4, 100);
  EXPECT_EQ(a.mean, b.mean);
  EXPECT_EQ(a.variance, b.variance);
}

TEST(ConvergenceProfile, RefusesAFileByItsKeys) {
  const auto why = [](const char* text) {
    const auto profile = ConvergenceProfile::parse(text, "p.json");
    return profile ? std::string("read") : profile.error().text();
  };
  EXPECT_THAT(why("{\"bounds\": {\"batch_min\": 4, \"batch_max\": 2}, \"probes\": []}"),
              HasSubstr("batch_max"));
  EXPECT_THAT(why("{\"bounds\": {\"batch_min\": 4, \"batch_max\": 8}, \"probes\": []}"),
              HasSubstr("must have at least one"));
  EXPECT_THAT(why("{\"bounds\": {\"batch_min\": 4, \"batch_max\": 8}, \"probes\": [{\"rate\": 1, "
                  "\"batch\": 4, \"loss_increase\": 0}]}"),
              HasSubstr("probes[0].rate"));
  EXPECT_THAT(why("{\"bounds\": {\"batch_min\": 4, \"batch_max\": 8}, \"probes\": [{\"rate\": 0, "
                  "\"batch\": 4, \"loss_increase\": -1}]}"),
              HasSubstr("probes[0].loss_increase"));
  EXPECT_THAT(why("{\"bounds\": {\"batch_min\": 4, \"batch_max\": 9000000000000}, \"probes\": []}"),
              HasSubstr("at most 1e12"));
  std::string many;
  for (int i = 0; i < 501; ++i) {
    many +=
        fmt::format("{}{{\"rate\": 0, \"batch\": {}, \"loss_increase\": 0}}", i ? "," : "", i + 1);
  }
  EXPECT_THAT(
      why(fmt::format("{{\"bounds\": {{\"batch_min\": 4, \"batch_max\": 8}}, \"probes\": [{}]}}",
                      many)
              .c_str()),
      HasSubstr("at most 500"));
  EXPECT_THAT(why("[]"), HasSubstr("p.json"));
}

TEST(FitProfile, RefusesWhatItCannotProbe) {
  EXPECT_THAT(fit_profile(train, {.batch_min = 0, .batch_max = 4}, 5, Random(1)).error().text(),
              HasSubstr("batch_min"));
  EXPECT_THAT(fit_profile(train, kBounds, 0, Random(1)).error().text(), HasSubstr("0 probes"));
  EXPECT_THAT(fit_profile(train, kBounds, 501, Random(1)).error().text(), HasSubstr("1 to 500"));
  const auto diverged = [](double, int64_t, int) -> Result<double> { return kInfinity; };
  EXPECT_THAT(fit_profile(diverged, kBounds, 5, Random(1)).error().text(),
              HasSubstr("the loss is inf"));
  const auto broken = [](double, int64_t, int staleness) -> Result<double> {
    if (staleness == 0) return 1.0;
    return failed("no data");
  };
  EXPECT_THAT(fit_profile(broken, kBounds, 5, Random(1)).error().text(),
              HasSubstr("while probing rate"));
}

}  // namespace
}  // namespace tombolo::tune
