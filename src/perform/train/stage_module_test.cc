#include "perform/train/stage_module.h"

#include <gmock/gmock.h>

#include <cmath>

#include "perform/weights/family.h"

namespace tombolo::train {
namespace {

using model::Model;
using model::Slice;
using testing::HasSubstr;

Model tiny_llama() {
  return {.name = "tiny",
          .layers = 2,
          .hidden = 8,
          .heads = 2,
          .kv_heads = 1,
          .ffn = 12,
          .vocabulary = 11,
          .sequence = 5};
}

Model tiny_gpt2() {
  Model m = tiny_llama();
  m.kv_heads = 2;
  m.norm = model::Norm::kLayer;
  m.activation = model::Activation::kGelu;
  m.positions = model::Positions::kLearned;
  m.bias = true;
  m.tied_embeddings = true;
  return m;
}

// Heads wider than hidden / heads, one layer of two with a window, and caps low enough to matter.
Model tiny_gemma2() {
  Model m = tiny_llama();
  m.activation = model::Activation::kGeglu;
  m.unit_offset_norms = m.scaled_embedding = m.output_norms = true;
  m.tied_embeddings = true;
  m.head_dim = 6;
  m.query_scalar = 2;
  m.attention_softcap = 1.5;
  m.logit_softcap = 2;
  m.attention_window = 3;
  m.global_interval = 2;
  return m;
}

// The first layer has an MLP, the second experts, which not all are met by some token.
Model tiny_mixture() {
  Model m = tiny_llama();
  m.experts = model::Experts{.count = 6, .per_token = 2, .ffn = 10, .shared_ffn = 6};
  m.experts->dense_layers = 1;
  m.experts->shared_gate = true;
  return m;
}

Slice whole(const Model& m) { return {0, m.layers, true, true}; }

int64_t count(const StageModule& module) {
  int64_t numbers = 0;
  for (const Parameter& parameter : module.parameters()) numbers += parameter.value.numel();
  return numbers;
}

TEST(StageModule, HasAsManyParametersAsTheModelSays) {
  Model untied = tiny_gpt2();
  untied.tied_embeddings = false;
  for (const Model& m : {tiny_llama(), tiny_gpt2(), tiny_mixture(), untied}) {
    EXPECT_EQ(count(*StageModule::create(m, whole(m), 1)), model::parameters(m));
  }
  for (const Model& m : {tiny_llama(), untied}) {
    for (const Slice& slice : {Slice{0, 1, true, false}, Slice{1, 1, false, true}}) {
      EXPECT_EQ(count(*StageModule::create(m, slice, 1)), model::parameters(m, slice));
    }
  }
}

TEST(StageModule, StartsFromTheSameWeightsHoweverItIsSplit) {
  const Model m = tiny_llama();
  const auto all = StageModule::create(m, whole(m), 1);
  size_t next = 0;
  for (const Slice& slice : {Slice{0, 1, true, false}, Slice{1, 1, false, true}}) {
    const auto part = StageModule::create(m, slice, 1);
    for (const Parameter& parameter : part->parameters()) {
      const Parameter& same = all->parameters()[next++];
      EXPECT_EQ(parameter.name, same.name);
      EXPECT_TRUE(at::equal(parameter.value, same.value)) << parameter.name;
    }
  }
  EXPECT_EQ(next, all->parameters().size());
  // Another seed, other weights; norms start at one and do not decay.
  const auto other = StageModule::create(m, whole(m), 2);
  EXPECT_FALSE(at::equal(all->parameters()[0].value, other->parameters()[0].value));
  EXPECT_EQ(all->parameters()[0].name, "embedding.weight");
  EXPECT_TRUE(all->parameters()[0].decays);
  EXPECT_EQ(all->parameters()[1].name, "layers.0.attention_norm.weight");
  EXPECT_EQ(all->parameters()[1].value.min().item<float>(), 1);
  EXPECT_FALSE(all->parameters()[1].decays);
}

TEST(StageModule, RefusesOddRotations) {
  Model m = tiny_llama();
  m.hidden = 6;  // 3 per head
  const auto module = StageModule::create(m, whole(m), 1);
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().code, ErrorCode::kUnusable);
  EXPECT_THAT(module.error().text(), HasSubstr("rope"));
}

TEST(StageModule, RefusesWhatItDoesNotCompute) {
  Model m = tiny_llama();
  m.attention_sinks = true;
  const auto module = StageModule::create(m, whole(m), 1);
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().code, ErrorCode::kUnusable);
  EXPECT_THAT(module.error().text(), HasSubstr("model.attention_sinks = true"));
}

// The head of the last stage is the embedding of the first one, by name and value.
TEST(StageModule, HoldsACopyOfATiedEmbedding) {
  const Model m = tiny_gpt2();
  const auto first = StageModule::create(m, {0, 1, true, false}, 1);
  const auto last = StageModule::create(m, {1, m.layers - 1, false, true}, 1);
  ASSERT_TRUE(first && last);
  const Parameter& embedding = first->parameters().front();
  const Parameter& copy = last->parameters().back();
  EXPECT_EQ(copy.name, embedding.name);
  EXPECT_TRUE(at::equal(copy.value, embedding.value));
  EXPECT_TRUE(copy.copy);
  EXPECT_FALSE(embedding.copy);
  EXPECT_EQ(count(*last), model::parameters(m, {1, m.layers - 1, false, true}));
}

// Those that weights of others are read into and written from.
TEST(StageModule, HasTheTensorsOfTheFamilies) {
  Model qwen3 = tiny_llama();
  qwen3.qk_norm = true;
  qwen3.head_dim = 6;
  Model qwen2 = tiny_llama();
  qwen2.qkv_bias = true;
  Model longer = tiny_gpt2();
  longer.positions_max = longer.sequence + 5;
  Model olmo2 = tiny_llama();
  olmo2.input_norms = false;
  olmo2.output_norms = olmo2.whole_qk_norm = true;
  for (const Model& m :
       {tiny_llama(), tiny_gpt2(), tiny_gemma2(), tiny_mixture(), qwen2, qwen3, olmo2, longer}) {
    const auto module = StageModule::create(m, whole(m), std::nullopt);
    ASSERT_TRUE(module) << module.error().text();
    std::vector<weights::Tensor> ours;
    for (const Parameter& parameter : module->parameters()) {
      ours.push_back({parameter.name, parameter.value.sizes().vec()});
    }
    EXPECT_EQ(ours, weights::tensors_of(m));
    EXPECT_EQ(count(*module), model::parameters(m));
  }
}

TEST(StageModule, StartsAtTheLossOfGuessing) {
  // Equal logits give ln 11 = 2.398 nats; those of a fresh head deviate by sqrt(hidden) /
  // sqrt(3 hidden) = 0.58 and add about 0.58^2 / 2 = 0.17.
  const Model m = tiny_llama();
  const auto module = StageModule::create(m, whole(m), 1);
  const at::Tensor tokens = at::arange(10, at::kLong).view({2, 5});
  const at::Tensor loss = StageModule::loss(module->forward(tokens), tokens.view({-1}));
  EXPECT_NEAR(loss.item<float>(), 2.398 + 0.17, 0.35);
}

// Every parameter's gradient against (f(w + e) - f(w - e)) / 2e in double. The error is e^2 / 6
// times a third derivative, of which norms of small numbers make thousands, plus rounding: 1e-9.
void expect_gradients(const Model& m) {
  auto module = StageModule::create(m, whole(m), 1, at::kDouble);
  ASSERT_TRUE(module);
  const at::Tensor tokens = at::arange(10, at::kLong).view({2, 5});
  const at::Tensor targets = (tokens.view({-1}) * 7 + 3).remainder(m.vocabulary);
  const auto loss = [&] { return StageModule::loss(module->forward(tokens), targets); };
  {
    // Off the starting point, where biases and norms are special.
    const at::NoGradGuard no_gradients;
    double shift = 0;
    for (Parameter& parameter : module->parameters()) {
      parameter.value.mul_(5).add_(0.01 * (shift += 0.1));
    }
  }
  torch::autograd::backward({loss()}, {});
  const at::NoGradGuard no_gradients;
  for (Parameter& parameter : module->parameters()) {
    double* values = parameter.value.data_ptr<double>();
    const at::Tensor gradient = parameter.value.grad().contiguous();
    for (int64_t i = 0; i < gradient.numel(); i += 1 + gradient.numel() / 9) {
      const double value = values[i], e = 1e-6;
      values[i] = value + e;
      const double above = loss().item<double>();
      values[i] = value - e;
      const double below = loss().item<double>();
      values[i] = value;
      ASSERT_NEAR(gradient.data_ptr<double>()[i], (above - below) / (2 * e), 1e-7)
          << parameter.name << " " << i;
    }
  }
}

TEST(StageModule, GradientsOfALlamaEqualFiniteDifferences) { expect_gradients(tiny_llama()); }

TEST(StageModule, GradientsOfAGpt2EqualFiniteDifferences) { expect_gradients(tiny_gpt2()); }

TEST(StageModule, GradientsOfAGemma2EqualFiniteDifferences) { expect_gradients(tiny_gemma2()); }

TEST(StageModule, GradientsOfAMixtureEqualFiniteDifferences) { expect_gradients(tiny_mixture()); }

// Norms of Gemma multiply by 1 + weight: they start at zero to start as others do.
TEST(StageModule, NormsWithAUnitOffsetStartAtZero) {
  const Model m = tiny_gemma2();
  const auto module = StageModule::create(m, whole(m), 1);
  ASSERT_TRUE(module);
  EXPECT_EQ(module->parameters()[1].name, "layers.0.attention_norm.weight");
  EXPECT_EQ(module->parameters()[1].value.abs().max().item<float>(), 0);
}

// sqrt(8) is 2.828125 in bfloat16; the product is rounded once more, as transformers does.
TEST(StageModule, ScalesEmbeddingsInTheTypeOfActivations) {
  const Model m = tiny_gemma2();
  auto module = StageModule::create(m, {0, 1, true, false}, 1);
  ASSERT_TRUE(module);
  const at::Tensor tokens = at::arange(5, at::kLong);
  const at::Tensor rows = module->parameters()[0].value.slice(0, 0, 5).detach();
  EXPECT_TRUE(at::equal(module->embed(tokens, 0), rows * std::sqrt(8.0F)));
  module->compute_in_bf16();
  const at::Tensor narrow = module->embed(tokens, 0);
  EXPECT_EQ(narrow.scalar_type(), at::kBFloat16);
  const at::Tensor product = rows.to(at::kBFloat16).to(at::kFloat) * 2.828125F;
  EXPECT_TRUE(at::equal(narrow, product.to(at::kBFloat16)));
}

// A layer with a window forgets what lies before it; the next one, which attends to all, does not.
TEST(StageModule, WindowsAreThoseOfTheirLayers) {
  Model m = tiny_gemma2();
  m.sequence = 6;
  const at::Tensor tokens = at::arange(6, at::kLong).view({1, 6});
  const auto last_row = [&](const Slice& slice, int64_t first) {
    auto module = StageModule::create(m, slice, 1);
    const at::Tensor changed = tokens.clone();
    changed[0][0] = first;
    return module->forward(changed)[5];
  };
  EXPECT_TRUE(at::equal(last_row({0, 1, true, false}, 7), last_row({0, 1, true, false}, 8)));
  EXPECT_FALSE(at::equal(last_row({1, 1, true, false}, 7), last_row({1, 1, true, false}, 8)));
}

}  // namespace
}  // namespace tombolo::train
