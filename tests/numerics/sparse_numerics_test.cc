// Sparse updates between two datacenters: with all blocks they are the sums of dense gradients but for
// rounding; with few a model still learns; replicas hold the same bits in every mode, and a run that
// goes on from a checkpoint has the bits of one that was never interrupted.
#include <gmock/gmock.h>

#include <cmath>

#include "story.h"

namespace tombolo::train {
namespace {

// Two pipelines of two stages in each of two datacenters; each layer is a group.
constexpr TinyLayout kTwoEach{.pipeline = 2, .data = 4, .apart = true, .hidden = 192};
constexpr TinyLayout kOneEach{.data = 2, .apart = true, .hidden = 192};

plan::Plan sparse(const TinyLayout& layout, const plan::Exchange& how, int64_t steps) {
  plan::Plan plan = tiny_plan(layout);
  plan.exchange = how;
  plan.exchange->mode = plan::ExchangeMode::kSparse;
  plan.run.steps = steps;
  plan.run.compare_replicas_every = 0;
  plan.optimizer.rule = plan::RateRule::kConstant;  // whatever the number of steps
  return plan;
}

// bf16 has 8 bits, and what it rounds off comes with the next update.
TEST(SparseNumerics, AllBlocksAndNoStalenessAreDenseButForRounding) {
  for (const bool sgd : {false, true}) {
    plan::Plan all = sparse(kTwoEach, {.density = 1, .staleness = 0}, 15);
    if (sgd) {
      all.optimizer.name = plan::OptimizerName::kSgd;
      all.optimizer.weight_decay = 0;
      all.optimizer.learning_rate = 0.05;
    }
    plan::Plan dense = all;
    dense.exchange.reset();
    const Story one = train(dense), other = train(all);
    double largest = 0;
    for (const auto& [step, loss] : one.losses)
      largest = std::max(largest, std::abs(other.losses.at(step) / loss - 1));
    RecordProperty(sgd ? "sgd" : "adamw", fmt::format("{:.3g}", largest));
    EXPECT_LT(largest, sgd ? 1e-3 : 1e-2);
    EXPECT_LT(other.losses.at(15), other.losses.at(1) - 0.3);
    expect_equal_replicas(all, other);
  }
}

// Numbers that travel as they are: only the order of the sums is another.
TEST(SparseNumerics, AllNumbersAsTheyAreAreDense) {
  plan::Plan all =
      sparse(kTwoEach, {.select = plan::Select::kTopK, .density = 1, .staleness = 0}, 10);
  plan::Plan dense = all;
  dense.exchange.reset();
  const Story one = train(dense), other = train(all);
  for (const auto& [step, loss] : one.losses) EXPECT_NEAR(other.losses.at(step) / loss, 1, 1e-4);
  expect_equal_replicas(all, other);
}

// Without momentum a step changes nothing where the gradient is zero (update/sparse.h).
TEST(SparseNumerics, ASgdStepOfAllNumbersIsThatOfTheSentOnes) {
  for (const auto select : {plan::Select::kBlocks, plan::Select::kTopK}) {
    plan::Plan sent = sparse(kTwoEach, {.select = select, .density = 0.05, .staleness = 0}, 10);
    sent.optimizer.name = plan::OptimizerName::kSgd;
    sent.optimizer.momentum = 0;
    sent.optimizer.weight_decay = 0;
    sent.optimizer.learning_rate = 0.05;
    plan::Plan all = sent;
    all.exchange->optimizer_visits = plan::OptimizerVisits::kAll;
    const Story one = train(sent), other = train(all);
    EXPECT_EQ(one.losses,
              other.losses);  // digests have the last gradient, which is the dense step's state
    expect_equal_replicas(all, other);
  }
}

// Muon needs whole matrices, and weight decay with momentum passes through all: both only so.
TEST(SparseNumerics, StepsOfAllNumbersTakeWhatSparseOnesRefuse) {
  for (const bool muon : {false, true}) {
    plan::Plan plan = sparse(kOneEach,
                             {.density = 0.05,
                              .freshness = plan::Freshness::kFixed,
                              .optimizer_visits = plan::OptimizerVisits::kAll},
                             24);
    plan.optimizer.name = muon ? plan::OptimizerName::kMuon : plan::OptimizerName::kSgd;
    if (!muon) plan.optimizer.learning_rate = 0.05;
    plan.run.evaluate_every = 12;
    const Story whole = train(plan), begun = train(with_steps(plan, 12));
    expect_equal_replicas(plan, whole);
    EXPECT_LT(whole.losses.at(24), whole.losses.at(1) - 0.3) << muon;
    const Story rest = train(plan, {.checkpoint = begun.checkpoint, .first = 13});
    EXPECT_EQ(rest.digests, whole.digests) << muon;
  }
}

TEST(SparseNumerics, FewBlocksStillLearnAndReplicasHoldTheSameBits) {
  struct Case {
    plan::Exchange how;
    TinyLayout layout = kOneEach;
  };
  const Case cases[] = {
      {{.density = 0.05, .staleness = 0}},
      {{.density = 0.05, .staleness = 1}, kTwoEach},
      {{.select = plan::Select::kTopK, .density = 0.02, .staleness = 1}, kTwoEach},
      {{.density = 0.05, .values = plan::SentValues::kInt4, .staleness = 1}},
      {{.density = 0.05, .values = plan::SentValues::kTwoBit, .freshness = plan::Freshness::kFixed},
       {.pipeline = 2, .data = 2, .schedule = "zb-h1", .apart = true, .hidden = 192}},
  };
  for (const Case& each : cases) {
    const plan::Plan plan = sparse(each.layout, each.how, 30);
    const Story story = train(plan);
    expect_equal_replicas(plan, story);
    EXPECT_LT(story.losses.at(30), story.losses.at(1) - 1);
  }
}

TEST(SparseNumerics, FixedVersionsRepeatBitForBit) {
  const plan::Plan plan =
      sparse(kTwoEach, {.density = 0.05, .freshness = plan::Freshness::kFixed}, 12);
  const Story one = train(plan), again = train(plan);
  EXPECT_EQ(one.digests, again.digests);
  EXPECT_EQ(one.losses, again.losses);
  // And they are not the newest: a run without staleness goes another way.
  plan::Plan fresh = plan;
  fresh.exchange =
      plan::Exchange{.mode = plan::ExchangeMode::kSparse, .density = 0.05, .staleness = 0};
  EXPECT_NE(train(fresh).losses.at(3), one.losses.at(3));
}

// Who goes first changes when an update is made, and not which updates a pass has: all of them without
// staleness, with fixed versions those before the last.
TEST(SparseNumerics, WhoGoesFirstChangesNoBit) {
  for (const bool stale : {false, true}) {
    plan::Exchange how{.density = 0.05, .staleness = stale ? 1 : 0};
    if (stale) how.freshness = plan::Freshness::kFixed;
    const Story deadline = train(sparse(kTwoEach, how, 8));
    how.order = plan::ExchangeOrder::kFirstCome;
    const Story first_come = train(sparse(kTwoEach, how, 8));
    EXPECT_EQ(first_come.losses, deadline.losses) << stale;
    EXPECT_EQ(first_come.digests, deadline.digests) << stale;
  }
}

// What a run of five steps left goes on to the bits that a run of ten has, which wrote a checkpoint
// there: parameters, moments and the residuals of both datacenters.
TEST(SparseNumerics, ACheckpointGoesOnExactly) {
  for (const bool stale : {false, true}) {
    plan::Exchange how{.density = 0.05, .staleness = stale ? 1 : 0};
    if (stale) how.freshness = plan::Freshness::kFixed;
    plan::Plan plan = sparse(kTwoEach, how, 10);
    plan.run.evaluate_every = 5;  // all updates are made there, as for a checkpoint
    const Story whole = train(plan), begun = train(with_steps(plan, 5));
    size_t residuals = 0;
    for (const kernels::NamedTensor& each : begun.checkpoint)
      residuals += each.name.find(".residual.") != std::string::npos;
    EXPECT_GT(residuals, 0u);
    const Story rest = train(plan, {.checkpoint = begun.checkpoint, .first = 6});
    EXPECT_EQ(rest.digests, whole.digests) << stale;
    EXPECT_EQ(rest.losses.at(10), whole.losses.at(10));
  }
}

// Before, all gradients; then the blocks with the largest norms, whose moments are up to date.
TEST(SparseNumerics, ADenseRunGoesOnSparsely) {
  plan::Plan plan = sparse(kOneEach, {.density = 0.1, .staleness = 0}, 16);
  plan::Plan dense = plan;
  dense.exchange.reset();
  const Story begun = train(with_steps(dense, 8));
  const Story rest = train(plan, {.checkpoint = begun.checkpoint, .first = 9});
  expect_equal_replicas(plan, rest);
  EXPECT_LT(rest.losses.at(16), begun.losses.at(8));
}

}  // namespace
}  // namespace tombolo::train
