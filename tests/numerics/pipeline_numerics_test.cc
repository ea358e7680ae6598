// Two stages chained by hand against one: same losses within rounding. And a run that was stopped
// and resumed against one that was not: same losses bit for bit.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "perform/train/torch_kernels.h"
#include "support/tiny_plan.h"

namespace tombolo::train {
namespace {

using kernels::Kernels;
using kernels::NamedTensor;
using kernels::Payload;
using testing::HasSubstr;

using Pipeline = std::vector<std::unique_ptr<Kernels>>;

Pipeline make_pipeline(const plan::Plan& plan) {
  Pipeline pipeline;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    auto kernels = make_torch_kernels(plan, static_cast<int32_t>(rank));
    EXPECT_TRUE(kernels) << kernels.error().text();
    pipeline.push_back(std::move(*kernels));
  }
  return pipeline;
}

// GPipe by hand: all forwards, then all backwards in reverse order of stages.
double train_once(Pipeline& pipeline, const plan::Plan& plan, int64_t iteration) {
  const bool recomputes = plan.training.recompute == model::Recompute::kFull;
  const auto stages = static_cast<int32_t>(pipeline.size());
  for (auto& stage : pipeline) EXPECT_TRUE(stage->begin_iteration(iteration));
  for (int64_t i = 0; i < plan.microbatches(); ++i) {
    Payload payload;
    for (int32_t s = 0; s < stages; ++s) {
      payload = *pipeline[s]->forward(s, i, std::move(payload));
    }
    EXPECT_TRUE(payload.empty());
  }
  for (int64_t i = 0; i < plan.microbatches(); ++i) {
    Payload payload;
    for (int32_t s = stages; s-- > 0;) {
      if (recomputes) {
        EXPECT_TRUE(pipeline[s]->recompute(s, i));
      }
      payload = *pipeline[s]->backward(s, i, std::move(payload));
    }
    EXPECT_TRUE(payload.empty());
  }
  for (int32_t s = 0; s < stages; ++s) EXPECT_TRUE(pipeline[s]->update(s));
  return pipeline.back()->loss().value();
}

std::vector<double> losses(Pipeline& pipeline, const plan::Plan& plan, int64_t first,
                           int64_t last) {
  std::vector<double> losses;
  for (int64_t i = first; i <= last; ++i) losses.push_back(train_once(pipeline, plan, i));
  return losses;
}

double evaluate(Pipeline& pipeline) {
  for (int64_t i = 0; i < pipeline[0]->evaluation_batches(); ++i) {
    Payload payload;
    for (int32_t s = 0; s < static_cast<int32_t>(pipeline.size()); ++s) {
      payload = *pipeline[s]->evaluate(s, i, std::move(payload));
    }
  }
  return pipeline.back()->evaluation_loss().value();
}

std::vector<NamedTensor> checkpoint(const Pipeline& pipeline) {
  std::vector<NamedTensor> tensors;
  for (const auto& stage : pipeline) {
    auto part = stage->save();
    EXPECT_TRUE(part);
    for (NamedTensor& tensor : *part) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

TEST(Numerics, TwoStagesEqualOneLossByLoss) {
  const plan::Plan one_plan = tiny_plan(1), two_plan = tiny_plan(2);
  Pipeline one = make_pipeline(one_plan), two = make_pipeline(two_plan);
  EXPECT_FALSE(two[0]->loss());
  const auto expected = losses(one, one_plan, 1, 30);
  const auto actual = losses(two, two_plan, 1, 30);
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(actual[i] / expected[i] - 1));
  }
  RecordProperty("largest_relative_difference", fmt::format("{:.3g}", largest));
  EXPECT_LT(largest, 1e-4);
  EXPECT_NEAR(expected[0], std::log(256.0) + 0.17, 0.2);  // as in stage_module_test.cc
  EXPECT_LT(expected[29], 3.2);                           // it learned something
  EXPECT_NEAR(evaluate(one), evaluate(two), 1e-4);
  EXPECT_FALSE(two[0]->evaluation_loss());
}

TEST(Numerics, ResumingContinuesBitForBit) {
  const plan::Plan plan = tiny_plan(2);
  Pipeline uninterrupted = make_pipeline(plan);
  losses(uninterrupted, plan, 1, 10);
  const auto saved = checkpoint(uninterrupted);
  const auto expected = losses(uninterrupted, plan, 11, 30);

  Pipeline resumed = make_pipeline(plan);
  for (auto& stage : resumed) ASSERT_TRUE(stage->load(source_of(saved)));
  EXPECT_EQ(losses(resumed, plan, 11, 30), expected);
}

TEST(Numerics, ACheckpointOfTwoStagesContinuesOnOne) {
  const plan::Plan two_plan = tiny_plan(2), one_plan = tiny_plan(1);
  Pipeline two = make_pipeline(two_plan), one = make_pipeline(one_plan);
  losses(two, two_plan, 1, 5);
  ASSERT_TRUE(one[0]->load(source_of(checkpoint(two))));
  EXPECT_NEAR(train_once(one, one_plan, 6), train_once(two, two_plan, 6), 1e-4);
}

class Recomputing : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Numerics, Recomputing, testing::Values(1, 2));

TEST_P(Recomputing, ChangesNothing) {
  plan::Plan plan = tiny_plan(GetParam());
  Pipeline kept = make_pipeline(plan);
  const auto expected = losses(kept, plan, 1, 3);
  plan.training.recompute = model::Recompute::kFull;
  for (plan::Stage& stage : plan.stages) stage.cost.recompute = 1_ms;  // scheduled, hence dropped
  Pipeline recomputed = make_pipeline(plan);
  EXPECT_EQ(losses(recomputed, plan, 1, 3), expected);
}

TEST(Numerics, AGpt2OnTwoStagesEqualsOne) {
  const plan::Plan one_plan = as_gpt2(tiny_plan(1)), two_plan = as_gpt2(tiny_plan(2));
  Pipeline one = make_pipeline(one_plan), two = make_pipeline(two_plan);
  for (int64_t i = 1; i <= 5; ++i) {
    EXPECT_NEAR(train_once(two, two_plan, i) / train_once(one, one_plan, i), 1, 1e-4);
  }
}

// So a rank reads what it needs and no more, and one tensor lies in memory beside the state.
TEST(Numerics, StagesAskForEachTensorOfTheirOwnOnce) {
  const plan::Plan plan = tiny_plan(2);
  Pipeline pipeline = make_pipeline(plan);
  const auto all = checkpoint(pipeline);
  for (auto& stage : pipeline) {
    std::map<std::string, int> asked;
    size_t bytes = 0, own = 0;
    ASSERT_TRUE(stage->load([&](const std::string& name) -> Result<NamedTensor> {
      ++asked[name];
      NamedTensor tensor = TRY(source_of(all)(name));
      bytes += tensor.bytes.size();
      return tensor;
    }));
    const std::vector<NamedTensor> saved = *stage->save();
    for (const NamedTensor& tensor : saved) {
      EXPECT_EQ(asked[tensor.name], 1) << tensor.name;
      own += tensor.bytes.size();
    }
    EXPECT_EQ(bytes, own);
  }
}

// So a checkpoint needs no memory for a copy: the views stay where the tensors are, and show what a
// copy of them has, bit for bit.
TEST(Numerics, StatesAreSeenWhereTheyLie) {
  const plan::Plan plan = tiny_plan(2);
  Pipeline pipeline = make_pipeline(plan);
  std::vector<std::vector<kernels::TensorView>> seen;
  for (auto& stage : pipeline) seen.push_back(*stage->state());
  const auto first = checkpoint(pipeline);
  losses(pipeline, plan, 1, 3);
  const auto later = checkpoint(pipeline);
  size_t i = 0, changed = 0;
  for (const auto& stage : seen) {
    for (const kernels::TensorView& view : stage) {
      ASSERT_LT(i, later.size());
      EXPECT_EQ(view.name, later[i].name);
      EXPECT_EQ(view.dtype, later[i].dtype);
      EXPECT_EQ(view.shape, later[i].shape);
      EXPECT_EQ(Payload(view.bytes.begin(), view.bytes.end()), later[i].bytes) << view.name;
      changed += first[i].bytes != later[i].bytes;
      ++i;
    }
  }
  EXPECT_EQ(i, later.size());
  EXPECT_EQ(changed, i) << "weights, both moments and the count of steps";
}

// --- what goes wrong -----------------------------------------------------------------------------

TEST(Kernels, NameTheTensorThatDoesNotFit) {
  const plan::Plan plan = tiny_plan(1);
  Pipeline pipeline = make_pipeline(plan);
  auto tensors = checkpoint(pipeline);
  const auto expect = [&](const std::string& message) {
    const Status status = pipeline[0]->load(source_of(tensors));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kUnusable);
    EXPECT_THAT(status.error().text(), HasSubstr(message));
  };
  const auto find = [&](const std::string& name) {
    return std::find_if(tensors.begin(), tensors.end(),
                        [&](const NamedTensor& tensor) { return tensor.name == name; });
  };
  const auto step = find("head.weight.adam.step");
  ASSERT_NE(step, tensors.end());
  step->bytes[0] = std::byte{9};
  expect("head.weight.adam.step is 9, other parameters are at 0");
  find("norm.weight")->shape = {31};
  expect("norm.weight is F32 [31] in 128 bytes, the model has F32 [32]");
  tensors.erase(find("layers.3.mlp.down.weight"));
  expect("lacks the tensor layers.3.mlp.down.weight");
}

TEST(Kernels, RefuseByNameWhatTheyCannotCompute) {
  const plan::Plan good = tiny_plan(2);
  const auto expect = [](const plan::Plan& plan, const std::string& message) {
    const auto kernels = make_torch_kernels(plan, 0);
    ASSERT_FALSE(kernels);
    EXPECT_EQ(kernels.error().code, ErrorCode::kUnusable);
    EXPECT_THAT(kernels.error().text(), HasSubstr(message));
  };
  plan::Plan plan = good;
  plan.training.precision = plan::Precision::kFp16;
  expect(plan, "training.precision = \"fp16\"");
  plan = good;
  plan.training.recompute = model::Recompute::kSelective;
  expect(plan, "recompute = \"selective\"");
  plan = good;
  plan.cluster.datacenters[0].device.kind = cluster::DeviceKind::kAccelerator;
  expect(plan, "cannot compute here");
  plan = good;
  plan.data->text = "/no/such/text";
  expect(plan, "/no/such/text");
  plan = good;
  plan.run.init = "/no/such/weights";
  const auto kernels = make_torch_kernels(plan, 0);
  ASSERT_TRUE(kernels) << "a run that goes on has no need of them";
  const Status begun = (*kernels)->begin_anew();
  ASSERT_FALSE(begun);
  EXPECT_THAT(begun.error().text(), HasSubstr("/no/such/weights/config.json"));
}

TEST(Kernels, FailOnBytesOfAnotherShapeAndOnCallsOutOfOrder) {
  const plan::Plan plan = tiny_plan(2);
  Pipeline pipeline = make_pipeline(plan);
  ASSERT_TRUE(pipeline[1]->begin_iteration(1));
  auto result = pipeline[1]->forward(1, 0, Payload(12));
  ASSERT_FALSE(result);
  // 2 samples x 32 tokens x 32 hidden x 4 bytes
  EXPECT_THAT(result.error().text(), HasSubstr("received activations of 12 bytes, expected 8192"));
  result = pipeline[1]->backward(1, 3, {});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().text(), HasSubstr("microbatch 3 before its forward pass"));
  EXPECT_THAT(pipeline[1]->update(1).error().text(), HasSubstr("no gradient"));
}

TEST(Kernels, StopWhenTheLossIsNotANumber) {
  plan::Plan plan = tiny_plan(1);
  Pipeline pipeline = make_pipeline(plan);
  auto tensors = checkpoint(pipeline);
  const float nan = std::nanf("");
  std::memcpy(tensors[0].bytes.data() + 4 * 32 * 'a', &nan, 4);  // embedding of the letter a
  ASSERT_TRUE(pipeline[0]->load(source_of(tensors)));
  ASSERT_TRUE(pipeline[0]->begin_iteration(1));
  for (int64_t i = 0; i < plan.microbatches(); ++i) {
    ASSERT_TRUE(pipeline[0]->forward(0, i, {}));
    ASSERT_TRUE(pipeline[0]->backward(0, i, {}));
  }
  const Status status = pipeline[0]->update(0);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().text(), HasSubstr("the loss of iteration 1 is nan"));
}

}  // namespace
}  // namespace tombolo::train
