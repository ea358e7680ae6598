// Training in bf16: what a cut between stages changes (nothing), what checkpoints hold, how much
// memory the state takes. On processors without products of bf16 these are slow and the same.
//
// Losses beside an independent implementation: tests/end_to_end/weights_test.py.
#include <gmock/gmock.h>

#include <cmath>

#include "numerics/story.h"

namespace tombolo::train {
namespace {

using testing::HasSubstr;

plan::Plan in_bf16(plan::Plan plan, int64_t steps = 10) {
  plan.training.precision = plan::Precision::kBf16;
  plan.boundary = model::boundary_bytes(plan.model, plan.training.micro_batch,
                                        plan::element_bytes(plan.training.precision));
  return with_steps(std::move(plan), steps);
}

// Stages hand on what the layers of one process hand on: numbers of bf16.
TEST(Bf16, StagesComputeTheBitsOfOneProcess) {
  const Story whole = train(in_bf16(tiny_plan(1)));
  EXPECT_LT(whole.losses.at(10), whole.losses.at(1) - 0.5) << "it learned something";
  for (const TinyLayout& layout :
       {TinyLayout{.pipeline = 4}, TinyLayout{.pipeline = 2, .recompute = "full"},
        TinyLayout{.pipeline = 2, .schedule = "zb-h1"}}) {
    SCOPED_TRACE(layout.schedule);
    const Story cut = train(in_bf16(tiny_plan(layout)));
    EXPECT_EQ(cut.losses, whole.losses);
  }
}

TEST(Bf16, IsNearFloat32AndNotTheSame) {
  for (const bool gpt2 : {false, true}) {
    const auto shaped = [&](plan::Plan plan) { return gpt2 ? as_gpt2(std::move(plan)) : plan; };
    const Story wide = train(with_steps(shaped(tiny_plan(2)), 10));
    const Story narrow = train(in_bf16(shaped(tiny_plan(2))));
    for (const auto& [step, loss] : wide.losses) {
      EXPECT_NEAR(narrow.losses.at(step) / loss, 1, 1e-2) << step;
    }
    EXPECT_NE(narrow.losses, wide.losses);
    EXPECT_NEAR(*narrow.evaluation / *wide.evaluation, 1, 1e-2);
  }
}

TEST(Bf16, ACheckpointHoldsFloat32AndContinuesBitForBit) {
  plan::Plan plan = in_bf16(tiny_plan({.pipeline = 2, .data = 2}));
  plan.optimizer.rule = plan::RateRule::kConstant;  // of fewer steps, too
  const Story whole = train(plan);
  const Story first = train(with_steps(plan, 6));
  int64_t rounded = 0, numbers = 0;
  for (const kernels::NamedTensor& tensor : first.checkpoint) {
    if (tensor.dtype == "I64") continue;
    EXPECT_EQ(tensor.dtype, "F32") << tensor.name;
    // Of a float that bf16 has, the lower half is zero.
    for (size_t at = 0; at + 4 <= tensor.bytes.size(); at += 4, ++numbers)
      rounded += tensor.bytes[at] == std::byte{} && tensor.bytes[at + 1] == std::byte{};
  }
  EXPECT_LT(rounded, numbers / 10) << "weights and moments are not rounded";

  const Story second = train(plan, {.checkpoint = first.checkpoint, .first = 7});
  for (int64_t step = 7; step <= 10; ++step)
    EXPECT_EQ(second.losses.at(step), whole.losses.at(step)) << step;
  EXPECT_EQ(second.digests, whole.digests);
}

// 4 bytes of weights, 4 of gradients, 8 of moments, and 2 of the copies of matrices: of each of
// these what Megatron-LM takes. tests/end_to_end/weights_test.py holds the law against it.
TEST(Bf16, AMatrixTakes18BytesAParameter) {
  plan::Plan plan = in_bf16(tiny_plan(2), 2);
  std::vector<std::unique_ptr<kernels::Kernels>> kernels;
  for (int32_t rank = 0; rank < 2; ++rank)
    kernels.push_back(*make_torch_kernels(plan, rank, {.bf16_products = true}));
  EXPECT_EQ(kernels[0]->state_bytes(), 0) << "nothing was computed";
  ASSERT_TRUE(kernels[0]->begin_iteration(1) && kernels[1]->begin_iteration(1));
  for (int64_t i = 0; i < plan.microbatches(); ++i) {
    kernels::Payload passed = *kernels[0]->forward(0, i, {});
    EXPECT_EQ(passed.size(), 2U * 32 * 32 * 2) << "samples x tokens x hidden x 2 bytes";
    EXPECT_EQ(real(passed.size()), plan.boundary.value);
    ASSERT_TRUE(kernels[1]->forward(1, i, std::move(passed)));
    kernels::Payload gradient = *kernels[1]->backward(1, i, {});
    EXPECT_EQ(real(gradient.size()), plan.boundary.value);
    ASSERT_TRUE(kernels[0]->backward(0, i, std::move(gradient)));
  }
  ASSERT_TRUE(kernels[0]->update(0) && kernels[1]->update(1));
  // A layer: q 32x32, k and v 16x32, o 32x32, three matrices of the MLP 64x32, two norms of 32.
  const int64_t matrices = 2 * (2 * 1024 + 2 * 512 + 3 * 2048), norms = 2 * 2 * 32;
  const int64_t ends = 256 * 32;  // embedding, or head with a norm before it
  EXPECT_EQ(kernels[0]->state_bytes(), 18 * matrices + 16 * (norms + ends));
  EXPECT_EQ(kernels[1]->state_bytes(), 18 * (matrices + ends) + 16 * (norms + 32));
}

TEST(Bf16, AProcessorWithoutProductsIsRefusedByName) {
  const plan::Plan plan = in_bf16(tiny_plan(1));
  const auto refused = make_torch_kernels(plan, 0, {.bf16_products = false});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnusable);
  EXPECT_THAT(refused.error().text(), HasSubstr("training.precision = \"bf16\": this processor"));
  EXPECT_THAT(refused.error().text(), HasSubstr("precision = \"fp32\""));
  EXPECT_TRUE(make_torch_kernels(plan, 0, {.bf16_products = true}));
  EXPECT_TRUE(make_torch_kernels(tiny_plan(1), 0, {.bf16_products = false}));
}

}  // namespace
}  // namespace tombolo::train
