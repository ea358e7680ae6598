// Checkpoints of stages that are cut in any way, loaded by stages that are cut in any other way: the same bits.
#include <gmock/gmock.h>

#include <span>

#include "numerics/story.h"
#include "perform/train/shard_collectives.h"

namespace tombolo::train {
namespace {

struct CutLayout {
  const char* name;
  TinyLayout layout;
  ShardDegrees degrees = {};
  int64_t zero = 0;
  int64_t expert = 1;
};

// The whole Plan's devices are described without shards; kernels read none of that.
plan::Plan cut(const CutLayout& how) {
  plan::Plan plan = tiny_plan(how.layout);
  plan.parallelism.tensor = how.degrees.tensor;
  plan.parallelism.context = how.degrees.context;
  plan.parallelism.sequence_parallel = how.degrees.sequence_parallel;
  plan.parallelism.zero = how.zero;
  plan.parallelism.expert = how.expert;
  for (layout::Placement& each : plan.ranks) each.shards = how.degrees.shards();
  plan.model.tied_embeddings = true;
  plan.optimizer.rule = plan::RateRule::kConstant;  // of any number of steps
  return plan;
}

const CutLayout kCuts[] = {{"whole", {}},
                           {"tensor 2", {}, {2, 1, true}},
                           {"context 2", {}, {1, 2, false}},
                           {"zero 3", {.data = 2}, {}, 3},
                           {"pipeline 2 x tensor 2", {.pipeline = 2}, {2, 1, false}}};

// Of a mixture: with four replicas, two have the same experts.
const CutLayout kSpreads[] = {
    {"whole", {}},
    {"context 2, expert 2", {}, {1, 2, false}, 0, 2},
    {"expert 2", {.data = 2}, {}, 0, 2},
    {"pipeline 2 x expert 2, tensor 2", {.pipeline = 2, .data = 2}, {2, 1, true}, 0, 2},
    {"data 4, expert 2", {.data = 4}, {}, 0, 2},
    {"data 4, expert 2, zero 1", {.data = 4}, {}, 1, 2},
    {"data 4, expert 2, zero 3", {.data = 4}, {}, 3, 2}};

plan::Plan spread(const CutLayout& how) {
  plan::Plan plan = cut(how);
  plan.model.experts = model::Experts{.count = 4, .per_token = 2, .ffn = 24, .every = 2};
  plan.optimizer.clip_norm = 0.5;
  plan.run.compare_replicas_every = 1;
  return plan;
}

std::map<std::string, kernels::Payload> saved_tensors(const Story& story) {
  std::map<std::string, kernels::Payload> out;
  for (const kernels::NamedTensor& tensor : story.checkpoint) {
    EXPECT_TRUE(out.emplace(tensor.name, tensor.bytes).second) << tensor.name << " is there twice";
  }
  return out;
}

void expect_any_continues_any(std::span<const CutLayout> layouts,
                              plan::Plan (*plan_of)(const CutLayout&)) {
  const Story undisturbed = train(with_steps(plan_of(layouts[0]), 6));
  for (const CutLayout& before : layouts) {
    const Story first = train(with_steps(plan_of(before), 3));
    for (const auto& [at, digests] : first.compared) EXPECT_EQ(digests.size(), 1) << at.first;
    for (const CutLayout& after : layouts) {
      SCOPED_TRACE(fmt::format("{} and then {}", before.name, after.name));
      // No step more: what is loaded and saved again.
      const Story same =
          train(with_steps(plan_of(after), 3), {.checkpoint = first.checkpoint, .first = 4});
      EXPECT_EQ(saved_tensors(same), saved_tensors(first));
      const Story rest =
          train(with_steps(plan_of(after), 6), {.checkpoint = first.checkpoint, .first = 4});
      for (int64_t step = 4; step <= 6; ++step)
        EXPECT_NEAR(rest.losses.at(step) / undisturbed.losses.at(step), 1, 1e-5) << step;
    }
  }
}

TEST(ShardNumerics, CheckpointsDoNotKnowHowAStageIsCut) { expect_any_continues_any(kCuts, cut); }

TEST(ShardNumerics, CheckpointsDoNotKnowWhoHadWhichExperts) {
  expect_any_continues_any(kSpreads, spread);
}

TEST(ShardNumerics, ARunHasTheSameBitsEachTime) {
  for (const CutLayout& how : kCuts) {
    const Story one = train(with_steps(cut(how), 4)), other = train(with_steps(cut(how), 4));
    EXPECT_EQ(saved_tensors(one), saved_tensors(other)) << how.name;
  }
  for (const CutLayout& how : kSpreads) {
    const Story one = train(with_steps(spread(how), 4)), other = train(with_steps(spread(how), 4));
    EXPECT_EQ(saved_tensors(one), saved_tensors(other)) << how.name;
  }
}

}  // namespace
}  // namespace tombolo::train
