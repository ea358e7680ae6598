// Replicas that shard the optimizer's state (ZeRO-1), gradients (2) and parameters (3) against replicas that
// all have them: the same bits where microbatches add up first, whoever goes on from whose checkpoint, and half
// of the moments.
#include <gmock/gmock.h>

#include "numerics/story.h"

namespace tombolo::train {
namespace {

using plan::OptimizerName;

// Of the ranks by stage: stage 0 of both pipelines, then stage 1.
plan::Plan sharded(plan::Plan plan, int64_t zero, OptimizerName name = OptimizerName::kAdamW) {
  plan.parallelism.zero = zero;
  plan.optimizer.name = name;
  if (name == OptimizerName::kSgd) plan.optimizer.learning_rate = 0.3;
  plan.optimizer.rule = plan::RateRule::kConstant;  // of any number of steps
  plan.optimizer.clip_norm = 0.5;
  return with_steps(std::move(plan), 6);
}

plan::Plan narrowed(plan::Plan plan) {
  plan.training.precision = plan::Precision::kBf16;
  return plan;
}

std::map<std::string, kernels::Payload> by_name(const Story& story) {
  std::map<std::string, kernels::Payload> out;
  for (const kernels::NamedTensor& tensor : story.checkpoint) {
    EXPECT_TRUE(out.emplace(tensor.name, tensor.bytes).second) << tensor.name << " is there twice";
  }
  return out;
}

class EveryShardedOptimizer : public testing::TestWithParam<OptimizerName> {};
INSTANTIATE_TEST_SUITE_P(Sharded, EveryShardedOptimizer,
                         testing::Values(OptimizerName::kAdamW, OptimizerName::kSgd,
                                         OptimizerName::kMuon),
                         [](const auto& info) { return std::string(to_name(info.param)); });

TEST_P(EveryShardedOptimizer, ComputesTheBitsOfUnshardedReplicas) {
  const plan::Plan plan = tiny_plan(2, 2);
  const Story whole = train(sharded(plan, 0, GetParam()));
  const Story parts = train(sharded(plan, 1, GetParam()));
  EXPECT_GT(whole.norms.at(1), 0.5) << "or nothing is clipped";
  EXPECT_EQ(parts.losses, whole.losses);
  EXPECT_EQ(parts.norms, whole.norms);
  EXPECT_EQ(by_name(parts), by_name(whole));
  EXPECT_EQ(parts.digests[0], parts.digests[1]);
  EXPECT_EQ(parts.digests[2], parts.digests[3]);
}

// In a pipeline of one chunk a rank gradients are summed once, as they are without. ZeRO-3 sums each microbatch,
// and rounds otherwise.
TEST(Sharded, GradientsAndParametersTooGiveTheSame) {
  plan::Plan plan = tiny_plan(2, 2);
  plan.model.tied_embeddings = true;
  const Story whole = train(sharded(plan, 0)), gradients = train(sharded(plan, 2));
  EXPECT_EQ(gradients.losses, whole.losses);
  EXPECT_EQ(by_name(gradients), by_name(whole));
  const Story parameters = train(sharded(plan, 3));
  for (const auto& [step, loss] : whole.losses)
    EXPECT_NEAR(parameters.losses.at(step) / loss, 1, 1e-6) << step;
  EXPECT_EQ(parameters.digests[0], parameters.digests[1]);
  const Story first = train(with_steps(sharded(plan, 3), 3));
  const Story rest = train(sharded(plan, 3), {.checkpoint = first.checkpoint, .first = 4});
  EXPECT_EQ(by_name(rest), by_name(parameters));
}

TEST(Sharded, EveryOneContinuesFromTheCheckpointsOfTheOthers) {
  const plan::Plan two = tiny_plan(2, 2);
  const Story whole = train(sharded(two, 0));
  for (const int64_t zero_before : {0, 1}) {
    const Story first = train(with_steps(sharded(two, zero_before), 3));
    const From from{.checkpoint = first.checkpoint, .first = 4};
    for (const int64_t zero_after : {0, 1}) {
      const Story rest = train(sharded(two, zero_after), from);
      EXPECT_EQ(by_name(rest), by_name(whole)) << zero_before << " and then " << zero_after;
    }
    // Of another number of replicas, whose sums have another order.
    for (const int replicas : {1, 4}) {
      const Story rest = train(sharded(tiny_plan(2, replicas), 1), from);
      for (int64_t step = 4; step <= 6; ++step)
        EXPECT_NEAR(rest.losses.at(step) / whole.losses.at(step), 1, 1e-6) << replicas;
    }
  }
}

TEST(Sharded, TiedEndsOfTwoPipelinesStayOne) {
  plan::Plan plan = tiny_plan({.pipeline = 2, .data = 2, .over_a_wan = true});
  plan.model.tied_embeddings = true;
  const Story whole = train(sharded(plan, 0)), parts = train(sharded(plan, 1));
  EXPECT_EQ(parts.losses, whole.losses);
  EXPECT_EQ(by_name(parts), by_name(whole));
}

TEST(Sharded, InBf16ComputesTheSameBitsToo) {
  const plan::Plan plan = narrowed(tiny_plan(2, 2));
  const Story whole = train(sharded(plan, 0)), parts = train(sharded(plan, 1));
  EXPECT_EQ(parts.losses, whole.losses);
  EXPECT_EQ(by_name(parts), by_name(whole));
  EXPECT_EQ(parts.digests[0], parts.digests[1]);
  const Story first = train(with_steps(sharded(plan, 1), 3));
  const Story rest = train(sharded(plan, 1), {.checkpoint = first.checkpoint, .first = 4});
  EXPECT_EQ(by_name(rest), by_name(whole));
}

// The first stage has an embedding of 256 x 32 and two layers of 9216 numbers in matrices and 64 in
// norms; with the sizes 8192, 6 x 2048, 4 x 1024, 4 x 512, 4 x 32 both replicas get half.
TEST(Sharded, TheStateTakesWhatTheLawSays) {
  constexpr int64_t kMatrices = 2 * 9216, kNorms = 2 * 64, kEmbedding = 256 * 32;
  constexpr int64_t kAll = kMatrices + kNorms + kEmbedding;
  const plan::Plan plan = with_steps(tiny_plan(2, 2), 1);
  EXPECT_EQ(train(sharded(plan, 0)).state_bytes[0], 16 * kAll);
  const Story wide = train(sharded(plan, 1));
  // 4 of weights, 4 of gradients, 8 of moments for half of them.
  EXPECT_EQ(wide.state_bytes[0], 8 * kAll + 8 * kAll / 2);
  EXPECT_EQ(wide.state_bytes[1], wide.state_bytes[0]);
  // At most, when the gradients of a microbatch are whole and not sent yet: these, and half of all else.
  EXPECT_EQ(train(sharded(plan, 3)).state_bytes[0], 4 * kAll + (4 + 4 + 8) * kAll / 2);

  // Law: 2 of copies, 4 of gradients, 12 of weights and moments for half of them.
  const Story narrow = train(sharded(narrowed(plan), 1));
  const double law = 6.0 * kAll + 12.0 * kAll / 2;
  const auto taken = static_cast<double>(narrow.state_bytes[0] + narrow.state_bytes[1]) / 2;
  EXPECT_NEAR(taken / law, 1, 0.01);
  // Copies of matrices; all of the embedding and the norms, moments of half of these.
  EXPECT_EQ(narrow.state_bytes[0] + narrow.state_bytes[1],
            (2 * 6 + 12) * kMatrices + (2 * 8 + 8) * (kNorms + kEmbedding));
}

}  // namespace
}  // namespace tombolo::train
