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

// Of all gradients least at a batch of 128, of a thousandth at 512.
double best_log2_batch(double density) { return 7 - 2 * std::log10(density) / 3; }
double least_log_factor(double density) {
  const double left_out = -std::log10(density);
  return 0.02 + 0.05 * left_out * left_out;
}
double log_factor(double density, double batch) {
  const double away = std::log2(batch) - best_log2_batch(density);
  return least_log_factor(density) + 0.05 * away * away;
}

// A loss that falls as the reference's does, by samples over the factor.
Result<LossCurve> train(double density, int64_t batch, int staleness, double samples) {
  const double factor =
      staleness == 0 ? 1 : std::exp(log_factor(density, static_cast<double>(batch)));
  LossCurve curve{.batch = batch};
  while (curve.samples() < samples) {
    const double middle = curve.samples() + static_cast<double>(batch) / 2;
    curve.losses.push_back(2 + 3 * std::exp(-middle / factor / 4e4));
  }
  return curve;
}

constexpr ProbeBounds kBounds{.batch_min = 16, .batch_max = 1024};
const ProbeTraining kTraining{train, 4e4};

TEST(ConvergenceProfile, OfThirtyProbesKnowsTheBestBatchOfAnyDensity) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    const auto profile = fit_profile(kTraining, kBounds, 30, Random(seed));
    ASSERT_TRUE(profile) << profile.error().text();
    ASSERT_EQ(profile->record().probes.size(), 30);
    for (const double density : {0.95, 0.3, 0.1, 0.03, 0.01}) {
      double best = 0, least = kInfinity;
      for (double batch = 16; batch <= 1024; ++batch) {
        const double believed = profile->samples_factor(density, batch);
        if (believed < least) std::tie(least, best) = std::pair(believed, batch);
      }
      // What the batch that it calls best costs more than the truly best one: the parabola's part.
      EXPECT_LT(log_factor(density, best) - least_log_factor(density), 0.01)
          << "seed " << seed << ", density " << density << ", batch " << best;
      EXPECT_NEAR(std::log(least), log_factor(density, best), 0.03)
          << "seed " << seed << ", density " << density;
    }
  }
}

// From the fifth probe on batches are chosen, so that they are nearer to the best one than drawn ones
// are: in turns to that of fewest samples and to that of fewest steps, whose derivative of
// 0.05 away^2 - ln 2 away is 0 at 6.93 and hence beyond the largest batch.
TEST(ConvergenceProfile, ProbesWhereFewerSamplesOrStepsAreExpected) {
  const auto profile = fit_profile(kTraining, kBounds, 40, Random(1));
  ASSERT_TRUE(profile);
  int few_samples = 0, few_steps = 0;
  for (size_t i = 4; i < 40; ++i) {
    const ConvergenceProbe& probe = profile->record().probes[i];
    const double log2_batch = std::log2(static_cast<double>(probe.batch));
    if (i % 2 == 0) few_samples += std::abs(log2_batch - best_log2_batch(probe.density)) < 1;
    if (i % 2 == 1) few_steps += log2_batch > 9;
  }
  EXPECT_GE(few_samples, 9);
  EXPECT_GE(few_steps, 9);
}

TEST(ConvergenceProfile, IsTheSameForTheSameSeed) {
  const auto a = fit_profile(kTraining, kBounds, 12, Random(8)),
             b = fit_profile(kTraining, kBounds, 12, Random(8)),
             c = fit_profile(kTraining, kBounds, 12, Random(9));
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(a->text(), b->text());
  EXPECT_NE(a->text(), c->text());
}

// Factors at 100 and 200 are known to be the same, so that the batch half-way between them in
// logarithms is known least of those between, and the bounds beyond them even less.
TEST(NextProbe, GoesWhereLeastIsKnownAmongEqualFactors) {
  ProbeRecord record{.bounds = {.batch_min = 100, .batch_max = 400}};
  for (const int64_t batch : {100, 200}) {
    for (const double density : {0.7, 0.8, 0.9})
      record.probes.push_back({density, batch, std::exp(0.1 * (1 - density))});
  }
  const auto profile = ConvergenceProfile::of(record);
  ASSERT_TRUE(profile);
  EXPECT_EQ(next_probe(*profile, 0.8, Wanted::kFewSamples), 400);
}

TEST(ConvergenceProfile, ReadsBackWhatItWrites) {
  const auto profile = fit_profile(kTraining, kBounds, 6, Random(2));
  ASSERT_TRUE(profile);
  const auto again = ConvergenceProfile::parse(profile->text(), "profile.json");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->text(), profile->text());
  const Belief a = profile->log_samples_factor(0.4, 100), b = again->log_samples_factor(0.4, 100);
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
  const auto with_probe = [&](const char* probe) {
    return why(
        fmt::format("{{\"bounds\": {{\"batch_min\": 4, \"batch_max\": 8}}, \"probes\": [{}]}}",
                    probe)
            .c_str());
  };
  EXPECT_THAT(with_probe("{\"density\": 0, \"batch\": 4, \"samples_factor\": 1}"),
              HasSubstr("probes[0].density"));
  EXPECT_THAT(with_probe("{\"density\": 1, \"batch\": 4, \"samples_factor\": 0}"),
              HasSubstr("probes[0].samples_factor"));
  EXPECT_THAT(why("{\"bounds\": {\"batch_min\": 4, \"batch_max\": 9000000000000}, \"probes\": []}"),
              HasSubstr("at most 1e12"));
  std::string many;
  for (int i = 0; i < 501; ++i) {
    many += fmt::format("{}{{\"density\": 1, \"batch\": {}, \"samples_factor\": 1}}", i ? "," : "",
                        i + 1);
  }
  EXPECT_THAT(with_probe(many.c_str()), HasSubstr("at most 500"));
  EXPECT_THAT(why("[]"), HasSubstr("p.json"));
}

TEST(FitProfile, RefusesWhatItCannotProbe) {
  EXPECT_THAT(fit_profile(kTraining, {.batch_min = 0, .batch_max = 4}, 5, Random(1)).error().text(),
              HasSubstr("batch_min"));
  EXPECT_THAT(fit_profile(kTraining, kBounds, 0, Random(1)).error().text(), HasSubstr("0 probes"));
  EXPECT_THAT(fit_profile(kTraining, kBounds, 501, Random(1)).error().text(),
              HasSubstr("1 to 500"));
  const auto constant = [](double loss) {
    return [loss](double, int64_t batch, int, double) -> Result<LossCurve> {
      return LossCurve{.batch = batch, .losses = {loss, loss}};
    };
  };
  for (const double loss : {kInfinity, 3.0}) {
    EXPECT_THAT(fit_profile({constant(loss)}, kBounds, 5, Random(1)).error().text(),
                HasSubstr("does not learn"));
  }
  const auto broken = [](double density, int64_t batch, int staleness,
                         double samples) -> Result<LossCurve> {
    if (staleness == 0) return train(density, batch, staleness, samples);
    return failed("no data");
  };
  EXPECT_THAT(fit_profile({broken, 4e4}, kBounds, 5, Random(1)).error().text(),
              HasSubstr("while training with density"));
}

TEST(FitProfile, ATrainingThatDivergesIsWorthItsFirstSteps) {
  const auto some_diverge = [](double density, int64_t batch, int staleness,
                               double samples) -> Result<LossCurve> {
    LossCurve curve = TRY(train(density, batch, staleness, samples));
    if (density < 0.03) curve.losses.back() = kInfinity;
    return curve;
  };
  const auto profile = fit_profile({some_diverge, 4e4}, kBounds, 12, Random(3));
  ASSERT_TRUE(profile) << profile.error().text();
  for (const ConvergenceProbe& probe : profile->record().probes) {
    if (probe.density < 0.03)
      EXPECT_GT(probe.samples_factor, 70);  // 4e4 samples for those of a step of 528
    else
      EXPECT_LT(probe.samples_factor, 10);
  }
}

// Batches that a job can have: a minimum, and steps of one.
TEST(FitProfile, StaysOnTheStepsOfTheBatch) {
  const ProbeBounds bounds{
      .batch_min = 24, .batch_max = 500, .batch_step = 16, .density_min = 0.01};
  const auto profile = fit_profile(kTraining, bounds, 12, Random(5));
  ASSERT_TRUE(profile) << profile.error().text();
  for (const ConvergenceProbe& probe : profile->record().probes) {
    EXPECT_EQ((probe.batch - 24) % 16, 0) << probe.batch;
    EXPECT_LE(probe.batch, 500);
    EXPECT_GE(probe.density, 0.01);
  }
}

}  // namespace
}  // namespace tombolo::tune
