// Every schedule really trains: four stages over two datacenters, the ranks in threads, each
// performing its actions, against one process that has the whole model. The same losses within
// rounding.
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "numerics/story.h"

namespace tombolo::train {
namespace {

using kernels::Kernels;

constexpr int64_t kSteps = 6;

// Four stages: four ranks of one, or two of two.
TinyLayout layout_of(const std::string& schedule) {
  const bool line =
      layout::mapping_of(*layout::find_schedule(schedule)) == layout::StageMapping::kLine;
  return {.pipeline = line ? 4 : 2,
          .schedule = schedule,
          .virtual_stages = line ? 1 : 2,
          .over_a_wan = true};
}

void expect_near(const std::map<int64_t, double>& actual, const std::map<int64_t, double>& expected,
                 const std::string& name) {
  ASSERT_EQ(actual.size(), expected.size()) << name;
  double largest = 0;
  for (const auto& [step, loss] : expected) {
    largest = std::max(largest, std::abs(actual.at(step) / loss - 1));
  }
  fmt::print("{}: losses differ by {:.2g} at most\n", name, largest);
  EXPECT_LT(largest, 1e-4) << name;
}

const Story& one_process() {
  static const Story story = train(with_steps(tiny_plan(1), kSteps));
  return story;
}

class EverySchedule : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Numerics, EverySchedule, testing::ValuesIn(layout::schedule_names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(EverySchedule, OnFourStagesOverTwoDatacentersEqualsOneProcess) {
  const plan::Plan plan = with_steps(tiny_plan(layout_of(GetParam())), kSteps);
  ASSERT_EQ(plan.stages.size(), 4u);
  ASSERT_NE(plan.ranks.front().datacenter, plan.ranks.back().datacenter);
  const Story story = train(plan);
  expect_near(story.losses, one_process().losses, GetParam());
  EXPECT_LT(story.losses.at(kSteps), story.losses.at(1) - 0.5) << "it learned something";
  EXPECT_NEAR(*story.evaluation, *one_process().evaluation, 1e-4);
}

TEST_P(EverySchedule, OfTwoPipelinesEqualsOneProcessAndReplicasStayEqual) {
  TinyLayout layout = layout_of(GetParam());
  layout.pipeline = 2;
  layout.data = 2;
  const Story story = train(with_steps(tiny_plan(layout), 3));
  auto expected = one_process().losses;
  expected.erase(expected.upper_bound(3), expected.end());
  ASSERT_EQ(story.digests.size(), 4u);
  // The learning rate follows run.steps only after the warm-up of 5 steps.
  expect_near(story.losses, expected, GetParam());
  EXPECT_EQ(story.digests[0], story.digests[1]);
  EXPECT_EQ(story.digests[2], story.digests[3]);
}

// Dropped activations come back bit for bit, also where the backward has halves.
TEST(Numerics, RecomputingChangesNothingInAnySchedule) {
  for (const char* schedule : {"zb-h1", "interleaved", "zb-v"}) {
    TinyLayout layout = layout_of(schedule);
    const Story kept = train(with_steps(tiny_plan(layout), 3));
    layout.recompute = "full";
    const Story recomputed = train(with_steps(tiny_plan(layout), 3));
    EXPECT_EQ(recomputed.losses, kept.losses) << schedule;
    EXPECT_EQ(recomputed.digests, kept.digests) << schedule;
  }
}

// Tensors have global names: what two ranks wrote that held stages 0, 3 and 1, 2 continues on four
// ranks, and that on two which take turns.
TEST(Numerics, ACheckpointContinuesUnderAnotherSchedule) {
  const plan::Plan folded = tiny_plan(layout_of("zb-v"));
  const Story whole = train(with_steps(folded, 5));
  Story begun = train(with_steps(folded, 2));
  Story story = train(with_steps(tiny_plan(layout_of("atlas")), 3), {begun.checkpoint, 3});
  EXPECT_NEAR(story.losses.at(3) / whole.losses.at(3), 1, 1e-4);
  story = train(with_steps(tiny_plan(layout_of("interleaved")), 4), {story.checkpoint, 4});
  EXPECT_NEAR(story.losses.at(4) / whole.losses.at(4), 1, 1e-4);
  // And under its own: bit for bit.
  EXPECT_EQ(train(with_steps(folded, 5), {begun.checkpoint, 3}).digests, whole.digests);
}

// I for all microbatches, then W for all, against B: the same bits, for both families of models.
TEST(Numerics, HalvesOfABackwardEqualTheWhole) {
  for (const plan::Plan& plan : {tiny_plan(2), as_gpt2(tiny_plan(2))}) {
    std::vector<std::string> digests;
    for (const bool halves : {false, true}) {
      std::unique_ptr<Kernels> first = std::move(*make_torch_kernels(plan, 0));
      std::unique_ptr<Kernels> last = std::move(*make_torch_kernels(plan, 1));
      for (auto* kernels : {&first, &last}) ASSERT_TRUE((*kernels)->begin_iteration(1));
      const int64_t microbatches = plan.microbatches();
      for (int64_t m = 0; m < microbatches; ++m) {
        ASSERT_TRUE(last->forward(1, m, *first->forward(0, m, {})));
      }
      for (int64_t m = 0; m < microbatches; ++m) {
        if (halves) {
          const auto nothing = first->backward_input(0, m, *last->backward_input(1, m, {}));
          ASSERT_TRUE(nothing) << nothing.error().text();
          EXPECT_TRUE(nothing->empty());
        } else {
          ASSERT_TRUE(first->backward(0, m, *last->backward(1, m, {})));
        }
      }
      for (int64_t m = 0; halves && m < microbatches; ++m) {
        ASSERT_TRUE(first->backward_weight(0, m));
        ASSERT_TRUE(last->backward_weight(1, m));
      }
      ASSERT_TRUE(first->update(0));
      ASSERT_TRUE(last->update(1));
      digests.push_back(*first->weights_digest() + *last->weights_digest());
    }
    EXPECT_EQ(digests[0], digests[1]);
  }
}

TEST(Kernels, WantTheHalvesOfABackwardInTheirOrder) {
  const plan::Plan plan = tiny_plan(1);
  auto kernels = std::move(*make_torch_kernels(plan, 0));
  ASSERT_TRUE(kernels->begin_iteration(1));
  ASSERT_TRUE(kernels->forward(0, 0, {}));
  EXPECT_THAT(kernels->backward_weight(0, 0).error().text(),
              testing::HasSubstr("microbatch 0 before its input's"));
  ASSERT_TRUE(kernels->backward_input(0, 0, {}));
  ASSERT_TRUE(kernels->backward_weight(0, 0));
  EXPECT_THAT(kernels->backward_weight(0, 0).error().text(),
              testing::HasSubstr("microbatch 0 before its forward pass"));
}

}  // namespace
}  // namespace tombolo::train
