// Optimizers and clipping by a norm that several ranks know only together: a run of many ranks
// against one process, and a run that was interrupted against one that was not.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "numerics/story.h"

namespace tombolo::train {
namespace {

using plan::OptimizerName;

constexpr int64_t kTurns = 5;
constexpr double kClipNorm = 0.5;  // below what the tiny model begins with

plan::Plan with_optimizer(plan::Plan plan, OptimizerName name) {
  plan.optimizer.name = name;
  if (name == OptimizerName::kSgd) plan.optimizer.learning_rate = 0.3;
  return with_steps(std::move(plan), kTurns);
}

plan::Plan clipped(plan::Plan plan, OptimizerName name = OptimizerName::kAdamW) {
  plan.optimizer.clip_norm = kClipNorm;
  return with_optimizer(std::move(plan), name);
}

void expect_close(const std::map<int64_t, double>& actual,
                  const std::map<int64_t, double>& wanted) {
  ASSERT_EQ(actual.size(), wanted.size());
  for (const auto& [step, value] : wanted) EXPECT_NEAR(actual.at(step) / value, 1, 1e-4) << step;
}

class EveryOptimizer : public testing::TestWithParam<OptimizerName> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, EveryOptimizer,
                         testing::Values(OptimizerName::kAdamW, OptimizerName::kSgd,
                                         OptimizerName::kMuon),
                         [](const auto& info) { return std::string(to_name(info.param)); });

TEST_P(EveryOptimizer, ClipsByOneNormHoweverTheModelIsCut) {
  const Story whole = train(clipped(tiny_plan(1), GetParam()));
  ASSERT_EQ(whole.norms.size(), static_cast<size_t>(kTurns));
  EXPECT_GT(whole.norms.at(1), kClipNorm) << "or nothing is clipped";
  EXPECT_LT(whole.losses.at(kTurns), whole.losses.at(1) - 0.1) << "it learned something";
  const Story unclipped = train(with_optimizer(tiny_plan(1), GetParam()));
  // Or clipping changed nothing.
  EXPECT_NE(unclipped.losses.at(kTurns), whole.losses.at(kTurns));
  EXPECT_TRUE(unclipped.norms.empty()) << "nobody asked for it";

  for (const TinyLayout& layout :
       {TinyLayout{.pipeline = 4, .over_a_wan = true}, TinyLayout{.pipeline = 2, .data = 2},
        TinyLayout{.pipeline = 2, .schedule = "zb-v", .virtual_stages = 2}}) {
    SCOPED_TRACE(fmt::format("{} of {} stages", layout.data, layout.pipeline));
    const Story cut = train(clipped(tiny_plan(layout), GetParam()));
    expect_close(cut.losses, whole.losses);
    expect_close(cut.norms, whole.norms);
    if (layout.data == 2) {
      EXPECT_EQ(cut.digests[0], cut.digests[1]);
    }
  }
}

TEST_P(EveryOptimizer, GoesOnBitForBitAndOnOtherRanks) {
  const plan::Plan plan = clipped(tiny_plan(2), GetParam());
  const Story whole = train(plan);
  const Story begun = train(with_steps(plan, 3));
  // run.steps has a say in the learning rate only after the warm-up of 5 steps.
  EXPECT_EQ(train(plan, {begun.checkpoint, 4}).digests, whole.digests);
  const Story elsewhere = train(clipped(tiny_plan(4), GetParam()), {begun.checkpoint, 4});
  EXPECT_NEAR(elsewhere.losses.at(kTurns) / whole.losses.at(kTurns), 1, 1e-4);
}

// A checkpoint of one optimizer is none of another: its state has other names.
TEST(Optimizers, ACheckpointOfAnotherOneIsRefusedByName) {
  const Story sgd = train(clipped(tiny_plan(1), OptimizerName::kSgd));
  const Story story = live_together(clipped(tiny_plan(1)), {sgd.checkpoint, 4});
  ASSERT_FALSE(story.ends[0]);
  EXPECT_THAT(story.ends[0].error().text(), testing::HasSubstr(".adam.first_moment"));
}

// Embedding and head are one matrix, of which both ends of the pipeline hold a copy: its gradient
// is the sum of both and counts once.
TEST(Optimizers, TiedEmbeddingsCountOnceInTheNorm) {
  plan::Plan one = clipped(tiny_plan(1)), four = clipped(tiny_plan(4));
  one.model.tied_embeddings = four.model.tied_embeddings = true;
  const Story whole = train(one), cut = train(four);
  ASSERT_EQ(whole.norms.size(), static_cast<size_t>(kTurns));
  expect_close(cut.norms, whole.norms);
  expect_close(cut.losses, whole.losses);
}

// Of a weight that is no number, every gradient is none. Nothing is updated, and it is said when
// ten iterations in a row were lost.
TEST(Optimizers, UpdatesWithoutAFiniteNormAreLeftOut) {
  const Story begun = train(clipped(tiny_plan(2)));
  From from{begun.checkpoint, 4};
  for (kernels::NamedTensor& tensor : from.checkpoint) {
    if (tensor.name != "layers.3.attention.output.weight") continue;
    const float nothing = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(tensor.bytes.data(), &nothing, sizeof nothing);
  }
  ASSERT_NE(from.checkpoint, begun.checkpoint) << "no tensor of that name";
  const auto untouched = [&](const Story& story) {
    return story.checkpoint.size() == from.checkpoint.size() &&
           std::equal(story.checkpoint.begin(), story.checkpoint.end(), from.checkpoint.begin());
  };
  const Story few = train(with_steps(clipped(tiny_plan(2)), 6), from);
  EXPECT_THAT(few.skipped, testing::ElementsAre(4, 5, 6));
  EXPECT_TRUE(few.losses.empty());
  EXPECT_TRUE(untouched(few));

  const Story many = live_together(with_steps(clipped(tiny_plan(2)), 30), from);
  EXPECT_EQ(many.skipped.size(), 9u);
  for (const Status& end : many.ends) {
    ASSERT_FALSE(end);
    EXPECT_THAT(end.error().text(), testing::AnyOf(testing::HasSubstr("10 iterations in a row"),
                                                   testing::HasSubstr("went away")));
  }
  EXPECT_TRUE(untouched(many));
}

}  // namespace
}  // namespace tombolo::train
