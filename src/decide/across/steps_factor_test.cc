#include "decide/across/steps_factor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tombolo::across {
namespace {

using plan::Exchange;
using plan::ExchangeMode;
using ::testing::HasSubstr;

Exchange local(int64_t steps = 30) {
  Exchange out{.mode = ExchangeMode::kLocal};
  out.steps = steps;
  return out;
}

// By hand, N = 1e8: ln N = 18.4207. L_1 = 18.129 exp(-0.0953 x 18.4207) = 3.13310, L_2 = 18.768
// exp(-0.0969 x 18.4207) = 3.14934; N'/N = (3.14934 / 3.13310)^(-1/0.0953) = 0.94717.
TEST(DilocoSteps, TakesTheTokensOfASmallerModel) {
  EXPECT_NEAR(diloco_steps(2, 1e8), 1 / 0.94717, 5e-4);
  EXPECT_EQ(diloco_steps(1, 1e8), 1);
}

// The paper's own losses of 10 billion parameters at two datacenters are 0.19 % below those of data
// parallelism: no steps are saved for it.
TEST(DilocoSteps, AreNeverFewerThanDataParallelismTakes) { EXPECT_EQ(diloco_steps(2, 10e9), 1); }

TEST(DilocoSteps, GrowWithDatacentersAndShrinkWithTheModel) {
  for (const double parameters : {35e6, 550e6, 2.4e9, 10e9}) {
    for (int64_t many = 2; many <= 8; ++many) {
      EXPECT_GE(diloco_steps(many, parameters), diloco_steps(many - 1, parameters))
          << many << " " << parameters;
      EXPECT_LE(diloco_steps(many, parameters * 2), diloco_steps(many, parameters));
    }
  }
}

TEST(StepsFactor, OfDenseIsOne) {
  EXPECT_EQ(steps_factor({}, 7, 1'000'000).factor, 1);
  EXPECT_EQ(steps_factor({}, 7, 1'000'000).source, "");
}

TEST(StepsFactor, SaysWhatItsSourceDoesNotCover) {
  EXPECT_EQ(steps_factor(local(), 2, 550'000'000).beyond, "");
  EXPECT_THAT(steps_factor(local(100), 2, 550'000'000).beyond, HasSubstr("30 were fitted"));
  EXPECT_THAT(steps_factor(local(), 9, 550'000'000).beyond, HasSubstr("up to 8"));
  EXPECT_THAT(steps_factor(local(), 2, 70'000'000'000).beyond, HasSubstr("10 billion"));
  EXPECT_EQ(steps_factor(local(), 9, 550'000'000).factor, diloco_steps(8, 550e6));
}

// docs/results/thin_lines.md: steps after which 300 dense ones are reached.
TEST(StepsFactor, OfSparseModesWereMeasured) {
  Exchange sparse{.mode = ExchangeMode::kSparse};
  EXPECT_DOUBLE_EQ(steps_factor(sparse, 2, 1'000'000).factor, 603.0 / 300) << "1 % of the blocks";
  sparse.density = 0.05;
  EXPECT_DOUBLE_EQ(steps_factor(sparse, 2, 1'000'000).factor, 421.0 / 300);
  sparse = {.mode = ExchangeMode::kSparse, .select = plan::Select::kTopK};
  EXPECT_THAT(steps_factor(sparse, 2, 1'000'000).beyond, HasSubstr("largest numbers of all"));
  sparse = {.mode = ExchangeMode::kSparse, .select = plan::Select::kChunks};
  EXPECT_DOUBLE_EQ(steps_factor(sparse, 2, 1'000'000).factor, 381.0 / 300);
  Exchange both{.mode = ExchangeMode::kSparseLocal, .select = plan::Select::kChunks};
  EXPECT_DOUBLE_EQ(steps_factor(both, 2, 1'000'000).factor, 469.0 / 300);
  EXPECT_EQ(steps_factor(both, 2, 1'000'000).beyond, "");
  both.steps = 100;
  EXPECT_THAT(steps_factor(both, 2, 1'000'000).beyond, HasSubstr("100 steps"));
}

// Of a profile that was measured on a grid of its own law: what a density takes over all gradients with the
// same batch, whatever that batch takes.
TEST(StepsFactor, OfSparseModesFollowsAProfile) {
  tune::ProbeRecord record{.bounds = {.batch_min = 4, .batch_max = 64, .batch_step = 4}};
  for (int i = 0; i <= 6; ++i) {
    for (const int64_t batch : {4, 16, 32, 64}) {
      const double density = std::pow(0.001, i / 6.0), of_batch = 1 + 0.01 * real(batch);
      record.probes.push_back({density, batch, of_batch * std::pow(density, -0.2)});
    }
  }
  const auto profile = tune::ConvergenceProfile::of(record);
  ASSERT_TRUE(profile) << profile.error().text();
  Exchange sparse{.mode = ExchangeMode::kSparse};
  for (const double density : {0.5, 0.1, 0.01}) {
    sparse.density = density;
    for (const int64_t batch : {8, 32}) {
      const StepsFactor factor = steps_factor(sparse, 2, 1'000'000, *profile, batch);
      EXPECT_NEAR(factor.factor, std::pow(density, -0.2), 0.03) << density << ", " << batch;
      EXPECT_EQ(factor.source, "measured by tombolo tune");
      EXPECT_EQ(factor.beyond, "");
    }
  }
  EXPECT_THAT(steps_factor(sparse, 2, 1'000'000, *profile, 128).beyond, HasSubstr("4 to 64"));
  sparse.density = 0.0001;
  EXPECT_THAT(steps_factor(sparse, 2, 1'000'000, *profile, 8).beyond, HasSubstr("below 0.001"));
  // Other modes take their law's.
  const auto same = [&](const Exchange& exchange) {
    const StepsFactor a = steps_factor(exchange, 2, 1'000'000, *profile, 8),
                      b = steps_factor(exchange, 2, 1'000'000);
    return a.factor == b.factor && a.source == b.source && a.beyond == b.beyond;
  };
  EXPECT_TRUE(same({}));
  EXPECT_TRUE(same(local()));
  sparse.density.reset();
  sparse.select = plan::Select::kChunks;
  EXPECT_TRUE(same(sparse));
  // But for what was measured with chunks.
  record.bounds.select = plan::Select::kChunks;
  const auto of_chunks = tune::ConvergenceProfile::of(record);
  ASSERT_TRUE(of_chunks) << of_chunks.error().text();
  EXPECT_EQ(steps_factor(sparse, 2, 1'000'000, *of_chunks, 8).source, "measured by tombolo tune");
  EXPECT_EQ(tune::ConvergenceProfile::parse(of_chunks->text(), "p.json")->text(),
            of_chunks->text());
}

}  // namespace
}  // namespace tombolo::across
