// Local steps in two datacenters: with an outer step after each inner one they are dense sums but for
// rounding; with many between they learn; replicas share the same bits, and a run that goes on from a
// checkpoint has the bits of one that was never interrupted.
#include <gmock/gmock.h>

#include <cmath>

#include "story.h"

namespace tombolo::train {
namespace {

constexpr TinyLayout kTwoPipelinesEach{.pipeline = 2, .data = 4, .apart = true, .hidden = 192};

plan::Plan locally(const plan::Exchange& how, int64_t steps,
                   const TinyLayout& layout = kTwoPipelinesEach) {
  plan::Plan plan = tiny_plan(layout);
  plan.exchange = how;
  plan.run.steps = steps;
  plan.run.compare_replicas_every = 0;
  plan.optimizer.rule = plan::RateRule::kConstant;  // whatever the number of steps
  return plan;
}

TEST(LocalNumerics, AnOuterStepAfterEachInnerOneIsDenseSgd) {
  plan::Plan local = locally({.mode = plan::ExchangeMode::kLocal,
                              .values = plan::SentValues::kFp32,
                              .steps = 1,
                              .outer_rate = 1,
                              .outer_momentum = 0},
                             15);
  local.optimizer.name = plan::OptimizerName::kSgd;
  local.optimizer.momentum = 0;
  local.optimizer.weight_decay = 0;
  local.optimizer.learning_rate = 0.02;  // at 0.05 losses jump, and any rounding with them
  plan::Plan dense = local;
  dense.exchange.reset();
  const Story one = train(dense), other = train(local);
  double largest = 0;
  for (const auto& [step, loss] : one.losses)
    largest = std::max(largest, std::abs(other.losses.at(step) / loss - 1));
  RecordProperty("largest", fmt::format("{:.3g}", largest));
  EXPECT_LT(largest, 1e-6);
  EXPECT_LT(other.losses.at(15), other.losses.at(1) - 0.3);
  expect_equal_replicas(local, other);
}

TEST(LocalNumerics, ManyInnerStepsLearnAndGoOnBitForBit) {
  using plan::ExchangeMode;
  using plan::SentValues;
  const plan::Exchange ways[] = {
      {.mode = ExchangeMode::kLocal, .steps = 5},
      {.mode = ExchangeMode::kLocal,
       .values = SentValues::kInt4,
       .steps = 6,
       .fragments = 2,
       .delay = 4},
      {.mode = ExchangeMode::kSparseLocal, .density = 0.1, .values = SentValues::kInt4, .steps = 5},
  };
  for (const plan::Exchange& how : ways) {
    const plan::Plan plan = locally(how, 20);
    const Story story = train(plan);
    expect_equal_replicas(plan, story);
    EXPECT_LT(story.losses.at(20), story.losses.at(1) - 0.5);
    const Story begun = train(with_steps(plan, 10));
    const Story rest = train(plan, {begun.checkpoint, 11});
    EXPECT_EQ(rest.digests, story.digests);
    for (int64_t step = 11; step <= 20; ++step)
      EXPECT_EQ(rest.losses.at(step), story.losses.at(step)) << step;
  }
}

// Inner steps are those of any optimizer.
TEST(LocalNumerics, EveryOptimizerMakesInnerSteps) {
  for (const auto name : {plan::OptimizerName::kSgd, plan::OptimizerName::kMuon}) {
    plan::Plan plan =
        locally({.mode = plan::ExchangeMode::kSparseLocal, .density = 0.1, .steps = 4}, 12,
                {.data = 2, .apart = true, .hidden = 192});
    plan.optimizer.name = name;
    plan.optimizer.weight_decay = 0;
    plan.optimizer.learning_rate = 0.02;
    const Story story = train(plan);
    expect_equal_replicas(plan, story);
    EXPECT_LT(story.losses.at(12), story.losses.at(1) - 0.2);
  }
}

// An outer step ends where the dense run did (state/resharded_state.h).
TEST(LocalNumerics, ADenseRunGoesOnWithLocalSteps) {
  const plan::Plan local = locally({.mode = plan::ExchangeMode::kLocal, .steps = 4}, 16);
  plan::Plan dense = local;
  dense.exchange.reset();
  const Story begun = train(with_steps(dense, 8));
  const Story rest = train(local, {begun.checkpoint, 9});
  expect_equal_replicas(local, rest);
  EXPECT_LT(rest.losses.at(16), begun.losses.at(8));
}

// After an outer step without a blend, all replicas hold the same parameters, bit for bit.
TEST(LocalNumerics, AllParametersAreEqualAfterAnOuterStep) {
  const plan::Plan plan = locally({.mode = plan::ExchangeMode::kLocal, .steps = 4}, 8);
  const Story story = train(plan);
  int compared = 0;
  for (const kernels::NamedTensor& each : story.checkpoint) {
    const size_t at = each.name.find(".in.");
    if (at == std::string::npos || each.name.find(".adam.") < at) continue;
    for (const kernels::NamedTensor& other : story.checkpoint) {
      if (other.name != each.name.substr(0, at)) continue;
      EXPECT_EQ(other.bytes, each.bytes) << each.name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 20);
}

}  // namespace
}  // namespace tombolo::train
