#include "evidence/score/reference_score.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.h"

namespace tombolo::score {
namespace {

// x = 1 2 3 4, y = 1 3 2 4: five pairs of six agree, one does not: (5 - 1) / 6.
TEST(Kendall, CountsPairsThatAgree) {
  EXPECT_DOUBLE_EQ(*kendall_tau_b(std::vector<double>{1, 2, 3, 4}, std::vector<double>{1, 3, 2, 4}),
                   4.0 / 6);
  EXPECT_DOUBLE_EQ(*kendall_tau_b(std::vector<double>{1, 2, 3}, std::vector<double>{9, 5, 1}), -1);
}

// x = 1 1 2 3, y = 1 2 2 3: of six pairs one is tied in x and another in y; the other four agree:
// 4 / sqrt(5 x 5).
TEST(Kendall, TakesTiesOutOfWhatIsPossible) {
  EXPECT_DOUBLE_EQ(*kendall_tau_b(std::vector<double>{1, 1, 2, 3}, std::vector<double>{1, 2, 2, 3}),
                   4.0 / 5);
  EXPECT_EQ(kendall_tau_b(std::vector<double>{1, 1}, std::vector<double>{1, 2}), std::nullopt);
  EXPECT_EQ(kendall_tau_b({}, {}), std::nullopt);
}

// Without ties tau is 1 - 4 s / (n (n - 1)), with s the neighbours that a bubble sort exchanges.
TEST(Kendall, EqualsTheExchangesOfABubbleSort) {
  Random random = Random(7).stream("kendall");
  for (int trial = 0; trial < 50; ++trial) {
    const size_t n = 2 + static_cast<size_t>(trial) % 9;
    std::vector<double> x, y;
    for (size_t i = 0; i < n; ++i) {
      x.push_back(static_cast<double>(i));
      y.push_back(random.uniform());
    }
    std::vector<double> sorted = y;
    int exchanges = 0;
    for (size_t pass = 0; pass < n; ++pass) {
      for (size_t i = 0; i + 1 < n; ++i) {
        if (sorted[i] <= sorted[i + 1]) continue;
        std::swap(sorted[i], sorted[i + 1]);
        ++exchanges;
      }
    }
    const auto pairs = static_cast<double>(n * (n - 1));
    EXPECT_NEAR(*kendall_tau_b(x, y), 1 - 4 * exchanges / pairs, 1e-12) << "trial " << trial;
  }
}

TEST(ErrorSummary, OfFourErrors) {
  const ErrorSummary summary = summarise(std::vector<double>{0.1, -0.3, 0.2, -0.2});
  EXPECT_EQ(summary.count, 4);
  EXPECT_DOUBLE_EQ(summary.mean, 0.2);
  EXPECT_DOUBLE_EQ(summary.median, 0.2);
  EXPECT_DOUBLE_EQ(summary.largest, 0.3);
  EXPECT_NEAR(summary.bias, -0.05, 1e-15);
  EXPECT_EQ(summarise({}).count, 0);
}

published::ReferenceRow row(const char* name, std::optional<Seconds> iteration) {
  published::ReferenceRow out;
  out.table = "t";
  out.name = out.job.name = name;
  out.group = "one";
  out.iteration = iteration;
  return out;
}

// Four runs of one group: 1 s, 2 s and 4 s, and one that ran out of memory. The law says 1.1 s,
// 1.0 s and 4 s, and that the second does not fit; it refuses a fifth row, which is for ordering
// only, like a sixth of 8 s for which it says 2 s.
TEST(ReferenceScore, IsWhatAHandCounts) {
  std::vector<published::ReferenceRow> rows = {row("a", 1_s), row("b", 2_s),  row("c", 4_s),
                                               row("d", {}),  row("e", 16_s), row("f", 8_s)};
  rows[0].memory = 10_GiB;
  rows[3].out_of_memory = true;
  rows[4].ordering_only = rows[5].ordering_only = true;
  const Predictor law = [](const plan::Job& job) -> Result<Predicted> {
    if (job.name == "a") return Predicted{1.1_s, 9_GiB, true};
    if (job.name == "b") return Predicted{1_s, 90_GiB, false};
    if (job.name == "c") return Predicted{4_s, 9_GiB, true};
    if (job.name == "d") return Predicted{4_s, 90_GiB, false};
    if (job.name == "f") return Predicted{2_s, 9_GiB, true};
    return unusable("not that one");
  };
  const std::vector<ReferenceScore> scores = score(rows, law);
  ASSERT_EQ(scores.size(), 1);
  const ReferenceScore& s = scores.front();
  EXPECT_EQ(s.rows.size(), 6);
  EXPECT_EQ(s.refused, 1);
  EXPECT_EQ(s.rows[4].refusal, "not that one");
  EXPECT_EQ(s.iteration.count, 3);
  EXPECT_NEAR(s.iteration.mean, (0.1 + 0.5 + 0) / 3, 1e-12);
  EXPECT_NEAR(s.iteration.bias, (0.1 - 0.5 + 0) / 3, 1e-12);
  EXPECT_EQ(s.memory.count, 1);
  EXPECT_NEAR(s.memory.mean, 0.1, 1e-12);
  EXPECT_EQ(s.out_of_memory, 1);
  EXPECT_EQ(s.out_of_memory_predicted, 1);
  EXPECT_EQ(s.wrongly_out_of_memory, 1);
  // Measured 1 2 4 8, predicted 1.1 1 4 2: a-b and c-f disagree, four pairs agree.
  EXPECT_EQ(s.pairs, 6);
  EXPECT_DOUBLE_EQ(s.tau, 2.0 / 6);
}

// A group of three in order (tau 1, 3 pairs) and one of two in reverse (tau -1, 1 pair): 2 / 4.
TEST(ReferenceScore, WeighsGroupsByTheirPairs) {
  std::vector<published::ReferenceRow> rows = {row("1", 1_s), row("2", 2_s), row("3", 3_s),
                                               row("2", 1_s), row("1", 2_s)};
  rows[3].group = rows[4].group = "another";
  const Predictor law = [](const plan::Job& job) -> Result<Predicted> {
    return Predicted{1_s * std::stod(job.name), 1_GiB, true};
  };
  const std::vector<ReferenceScore> scores = score(rows, law);
  EXPECT_EQ(scores.front().pairs, 4);
  EXPECT_DOUBLE_EQ(scores.front().tau, 0.5);
}

// Korthikanti et al. 2022: 22B keeps 45.5625 GiB of weights and optimizer, and 49.42 % of its
// activations with selective recomputation. A law that says so has no error.
TEST(ReferenceMemory, HoldsKindsOfMemoryAgainstAFigure) {
  const auto rows = published::read_reference_memory("");
  ASSERT_TRUE(rows) << rows.error().text();
  EXPECT_EQ(rows->size(), 14);
  const Predictor law = [](const plan::Job& job) -> Result<Predicted> {
    const bool less = job.training.recompute == model::Recompute::kSelective;
    return Predicted{1_s, 50_GiB, true, 45.5625 * 1_GiB, (less ? 49.42 : 100) * 1_MiB};
  };
  EXPECT_EQ((*rows)[0].name, "fig1 22B none");
  EXPECT_EQ((*rows)[4].name, "fig7 22B selective");
  const std::vector<published::ReferenceMemory> both = {(*rows)[0], (*rows)[4]};
  const auto scored = score_memory(both, law);
  ASSERT_TRUE(scored) << scored.error().text();
  EXPECT_NEAR((*scored)[0].error(), 0, 1e-12);
  EXPECT_NEAR((*scored)[1].error(), 0, 1e-12);
}

TEST(ReferenceScoreDeathTest, ThereIsALawAndAMeasurement) {
  EXPECT_DEATH(score({}, {}), "0 measurements, and no law");
  EXPECT_DEATH(static_cast<void>(score_memory({}, {})), "0 measurements, and no law");
  EXPECT_DEATH(ScoredRow{}.iteration_error(), "a score without a measurement");
  EXPECT_DEATH(ScoredRow{}.memory_error(), "a score without a measurement");
  const double x[] = {1, 2}, y[] = {1, 2, 3};
  EXPECT_DEATH(kendall_tau_b(x, y), "2 and 3 values to compare");
}

}  // namespace
}  // namespace tombolo::score
