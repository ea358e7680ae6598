// Replicas in two datacenters against one process: gradients leave group by group during the backward
// pass and each group is updated as it is summed; losses stay those of one process, and replicas
// hold the same bits.
#include <gmock/gmock.h>

#include <cmath>

#include "story.h"

namespace tombolo::train {
namespace {

using ::testing::SizeIs;

// Two pipelines of two stages in each of two datacenters; each layer is a group.
constexpr TinyLayout kApart{.pipeline = 2, .data = 4, .apart = true, .hidden = 192};
constexpr TinyLayout kAlone{.hidden = 192};

plan::Plan apart(TinyLayout layout, bool overlap = true, int64_t steps = 30) {
  plan::Plan plan = tiny_plan(layout);
  CHECK(plan.exchanges_gradients(), "nothing is exchanged");
  plan.exchange = plan::Exchange{.overlap = overlap};
  plan.run.steps = steps;
  plan.run.compare_replicas_every = 0;
  return plan;
}

double largest_difference(const Story& expected, const Story& actual) {
  double largest = 0;
  for (const auto& [step, loss] : expected.losses)
    largest = std::max(largest, std::abs(actual.losses.at(step) / loss - 1));
  return largest;
}

TEST(ExchangeNumerics, TwoDatacentersEqualOneProcess) {
  const Story one = train(with_steps(tiny_plan(kAlone), 30));
  plan::Plan plan = apart(kApart);
  const Story free = train(plan);
  plan.run.compare_replicas_every = 1;
  const Story compared = train(plan);
  ASSERT_EQ(one.losses.size(), 30u);
  const double largest = largest_difference(one, free);
  RecordProperty("largest_relative_difference", fmt::format("{:.3g}", largest));
  EXPECT_LT(largest, 1e-4);
  EXPECT_LT(one.losses.at(30), one.losses.at(1) - 1);  // it learned something
  expect_equal_replicas(plan, free);
  // Waiting for all of an exchange after each step changes nothing, and after each all are equal.
  EXPECT_EQ(compared.digests, free.digests);
  EXPECT_EQ(compared.losses, free.losses);
  ASSERT_EQ(compared.compared.size(), 60u);
  for (const auto& [step, digests] : compared.compared)
    EXPECT_THAT(digests, SizeIs(1)) << "step " << step.first << ", stage " << step.second;
}

TEST(ExchangeNumerics, WithAndWithoutOverlapAndInEitherOrderAllBitsAreTheSame) {
  struct Case {
    const char* name;
    TinyLayout layout;
    std::optional<double> clip_norm = {};
    bool tied = false;
  };
  const Case cases[] = {
      {"1f1b", kApart},
      {"backwards in halves",
       {.pipeline = 2, .data = 2, .schedule = "zb-h1", .apart = true, .hidden = 192}},
      {"two stages a rank",
       {.pipeline = 2,
        .data = 2,
        .schedule = "zb-v",
        .virtual_stages = 2,
        .apart = true,
        .hidden = 192}},
      {"recomputed", {.pipeline = 2, .data = 2, .recompute = "full", .apart = true, .hidden = 192}},
      {"clipped", kApart, 0.1},
      {"tied on two ranks", kApart, {}, true},
      {"tied on one rank", {.data = 2, .apart = true, .hidden = 192}, {}, true},
  };
  for (const Case& each : cases) {
    const auto run = [&](bool overlap, std::optional<plan::ExchangeOrder> order = {}) {
      plan::Plan plan = apart(each.layout, overlap, 6);
      plan.exchange->order = order;
      plan.optimizer.clip_norm = each.clip_norm;
      plan.model.tied_embeddings = each.tied;
      const Story story = train(plan);
      expect_equal_replicas(plan, story);
      return story;
    };
    const Story with = run(true);
    for (const Story& other : {run(false), run(true, plan::ExchangeOrder::kFirstCome)}) {
      EXPECT_EQ(with.digests, other.digests) << each.name;
      EXPECT_EQ(with.losses, other.losses) << each.name;
      EXPECT_EQ(with.norms, other.norms) << each.name;
    }
  }
}

// A pipeline has a third of the samples: the gradient is that of the whole batch, as one process has
// it; over the WAN, and inside a datacenter.
TEST(ExchangeNumerics, PipelinesWithUnlikePartsOfTheBatchEqualOneProcess) {
  const auto unlike = [](plan::Plan plan) {
    plan.training.global_batch = 6;
    if (plan.replicas() > 1) plan.parallelism.microbatches_per_replica = {2, 1};
    return with_steps(std::move(plan), 30);
  };
  const Story one = train(unlike(tiny_plan(kAlone)));
  for (const bool is_apart : {true, false}) {
    const plan::Plan plan =
        unlike(tiny_plan({.pipeline = 2, .data = 2, .apart = is_apart, .hidden = 192}));
    const Story two = train(plan);
    EXPECT_LT(largest_difference(one, two), 1e-4);
    expect_equal_replicas(plan, two);
  }
}

// The batch is divided in another way in the middle, twice: every step has the gradient of the whole batch, its loss
// is that of one process with the same weights, and replicas have the same bits after each.
TEST(ExchangeNumerics, ABatchThatIsDividedAnewEqualsOneProcess) {
  const auto shared_out = [](plan::Plan plan) {
    plan.training.global_batch = 16;  // 8 microbatches
    plan.run.compare_replicas_every = 1;
    if (plan.replicas() > 1) plan.parallelism.adaptive_batch = true;
    return with_steps(std::move(plan), 12);
  };
  const std::map<int64_t, std::vector<int64_t>> divided = {{4, {6, 2}}, {9, {3, 5}}};
  const Story one = train(shared_out(tiny_plan(kAlone)));
  for (const TinyLayout& layout :
       {TinyLayout{.data = 2, .hidden = 192}, TinyLayout{.pipeline = 2, .data = 2, .hidden = 192},
        TinyLayout{.pipeline = 2, .data = 2, .apart = true, .hidden = 192},
        TinyLayout{.pipeline = 2, .data = 2, .schedule = "zb-h1", .apart = true, .hidden = 192}}) {
    const plan::Plan plan = shared_out(tiny_plan(layout));
    ASSERT_TRUE(plan::validate(plan)) << plan::validate(plan).error().text();
    const Story two = train(plan, {.divided = divided});
    ASSERT_EQ(two.losses.size(), 12u);
    for (const auto& [step, loss] : two.losses) {
      EXPECT_NEAR(loss / one.losses.at(step), 1, 1e-5) << layout.schedule << ", step " << step;
    }
    for (const auto& [step, digests] : two.compared) EXPECT_EQ(digests.size(), 1u) << step.first;
    expect_equal_replicas(plan, two);
  }
}

// As on Atlas' testbed: pipelines cross the WAN, and of the middle stage the replicas lie apart too.
TEST(ExchangeNumerics, PipelinesThatCrossAndReplicasApartEqualOneProcess) {
  const Story one = train(with_steps(tiny_plan(kAlone), 30));
  const plan::Plan plan =
      apart({.pipeline = 3,
             .data = 2,
             .where = "datacenter_per_stage = [\"here\", [\"here\", \"there\"], \"there\"]\n",
             .hidden = 192});
  EXPECT_FALSE(plan.exchanges_gradients(0));
  EXPECT_TRUE(plan.exchanges_gradients(1));
  const Story crossing = train(plan);
  EXPECT_LT(largest_difference(one, crossing), 1e-4);
  expect_equal_replicas(plan, crossing);
}

// What a run of five steps left goes on to the bits that a run of ten has.
TEST(ExchangeNumerics, ACheckpointGoesOnExactly) {
  plan::Plan plan = apart(kApart, true, 10);
  plan.optimizer.rule = plan::RateRule::kConstant;  // whatever the number of steps
  const Story whole = train(plan), begun = train(with_steps(plan, 5));
  const Story rest = train(plan, {.checkpoint = begun.checkpoint, .first = 6});
  EXPECT_EQ(rest.digests, whole.digests);
}

TEST(ExchangeNumerics, ALossThatIsNoNumberEndsTheRunBeforeItsUpdate) {
  plan::Plan plan = apart(kApart, true, 3);
  plan.optimizer.learning_rate = 1e30;
  plan.optimizer.warmup_steps = 0;
  const Story story = live_together(plan);
  for (const Status& end : story.ends) EXPECT_FALSE(end);
}

}  // namespace
}  // namespace tombolo::train
