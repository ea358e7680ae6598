#include "perform/train/sharded_stage.h"

#include <gmock/gmock.h>

namespace tombolo::train {
namespace {

using model::Model;
using model::Slice;

constexpr int64_t kSamples = 2;

Model llama() {
  return {.name = "tiny",
          .layers = 2,
          .hidden = 16,
          .heads = 4,
          .kv_heads = 2,
          .ffn = 24,
          .vocabulary = 13,  // no degree divides it
          .sequence = 16};
}

Model gpt2() {
  Model m = llama();
  m.kv_heads = 4;
  m.norm = model::Norm::kLayer;
  m.activation = model::Activation::kGelu;
  m.positions = model::Positions::kLearned;
  m.bias = true;
  m.tied_embeddings = true;
  return m;
}

Model gemma2() {
  Model m = llama();
  m.activation = model::Activation::kGeglu;
  m.unit_offset_norms = m.scaled_embedding = m.output_norms = true;
  m.tied_embeddings = true;
  m.head_dim = 6;
  m.query_scalar = 2;
  m.attention_softcap = 1.5;
  m.logit_softcap = 2;
  m.attention_window = 5;
  m.global_interval = 2;
  return m;
}

Model qwen3() {
  Model m = llama();
  m.qk_norm = true;
  m.qkv_bias = true;
  return m;
}

Model olmo2() {
  Model m = llama();
  m.input_norms = false;
  m.output_norms = m.whole_qk_norm = true;
  return m;
}

// One layer of two has experts.
Model mixture() {
  Model m = llama();
  m.experts = model::Experts{.count = 5, .per_token = 2, .ffn = 12, .shared_ffn = 8, .every = 2};
  m.experts->shared_gate = true;
  return m;
}

// Loss or hidden states, gradient of the input, gradients of the parameters: of one microbatch in two.
struct Outcome {
  std::vector<at::Tensor> outputs, input_gradients, gradients;
};

struct Case {
  Model model;
  Slice slice;
  std::optional<ShardDegrees> degrees = {};  // none: the stage as it is
  bool in_halves = false;
  at::ScalarType type = at::kDouble;
};

Outcome pass(const Case& c) {
  const Model& m = c.model;
  auto whole = StageModule::create(m, c.slice, 1, c.type == at::kDouble ? c.type : at::kFloat);
  CHECK(whole, "{}", whole.error().text());
  {
    // Off the starting point, where biases and norms are special.
    const at::NoGradGuard no_gradients;
    double shift = 0;
    for (Parameter& each : whole->parameters())
      each.value.mul_(c.type == at::kDouble ? 3 : 1).add_(0.01 * (shift += 0.1));
  }
  if (c.type == at::kBFloat16) whole->compute_in_bf16();
  const int64_t shards = c.degrees ? c.degrees->shards() : 1;
  ShardTeam team(static_cast<int32_t>(shards));
  std::optional<ShardCollectives> with;
  if (c.degrees) with.emplace(team, *c.degrees);
  const ShardedStage::Strand strand{with ? &*with : nullptr};
  auto made = ShardedStage::create(*whole, {&strand, 1}, kSamples);
  CHECK(made, "{}", made.error().text());
  ShardedStage& stage = **made;

  Outcome out;
  stage.begin_gradients();
  for (int64_t microbatch = 0; microbatch < 2; ++microbatch) {
    const at::Tensor tokens = (at::arange(kSamples * m.sequence, at::kLong) * (7 + microbatch) + 3)
                                  .remainder(m.vocabulary)
                                  .view({kSamples, m.sequence});
    const at::Tensor numbers = at::arange(kSamples * m.sequence * m.hidden, at::kDouble)
                                   .view({kSamples * m.sequence, m.hidden});
    const at::Tensor hidden =
        at::sin(numbers + microbatch)
            .to(whole->activation_type() == at::kFloat ? c.type : whole->activation_type());
    const at::Tensor targets = (tokens * 5 + 1).remainder(m.vocabulary);
    std::vector<at::Tensor> inputs, outputs, of_inputs;
    std::vector<double> losses;
    std::vector<std::unique_ptr<WeightGradients>> later;
    for (int32_t shard = 0; shard < stage.shards(); ++shard) {
      inputs.push_back(c.slice.embedding ? stage.tokens_of(shard, tokens)
                                         : stage.hidden_of(shard, hidden).detach());
      if (!c.slice.embedding) inputs.back().set_requires_grad(true);
      later.push_back(std::make_unique<WeightGradients>());
      if (stage.is_cut()) later.back()->add_in_place();
    }
    outputs.resize(inputs.size());
    stage.for_each([&](int32_t shard) {
      const auto i = static_cast<size_t>(shard);
      outputs[i] = stage.module(shard).forward(inputs[i], later[i].get());
      if (!c.slice.head) return;
      outputs[i] = stage.loss(shard, outputs[i], stage.tokens_of(shard, targets).view({-1}));
    });
    if (c.slice.head) {
      for (const at::Tensor& each : outputs) losses.push_back(each.item<double>());
      out.outputs.push_back(at::full({}, stage.join_loss(losses), at::kDouble));
    } else {
      std::vector<at::Tensor> parts;
      for (const at::Tensor& each : outputs) parts.push_back(each.detach());
      out.outputs.push_back(stage.join_hidden(parts));
    }
    const at::Tensor gradient = at::cos(numbers).to(hidden.scalar_type());
    stage.for_each([&](int32_t shard) {
      const auto i = static_cast<size_t>(shard);
      if (c.in_halves) later[i]->defer();
      const at::Tensor its = c.slice.head
                                 ? at::full({}, 0.5, outputs[i].options().requires_grad(false))
                                 : stage.hidden_of(shard, gradient);
      torch::autograd::backward({outputs[i]}, {its});
    });
    stage.fold();
    if (c.in_halves) {
      stage.for_each([&](int32_t shard) { later[static_cast<size_t>(shard)]->compute(); });
      stage.fold();
    }
    if (c.slice.embedding) continue;
    for (const at::Tensor& each : inputs) of_inputs.push_back(each.grad());
    out.input_gradients.push_back(stage.join_hidden(of_inputs));
  }
  for (const Parameter& each : whole->parameters()) out.gradients.push_back(each.value.grad());
  return out;
}

void expect_equal(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other,
                  double tolerance, const char* what) {
  ASSERT_EQ(one.size(), other.size());
  for (size_t i = 0; i < one.size(); ++i) {
    const at::Tensor a = one[i].to(at::kDouble), b = other[i].to(at::kDouble);
    ASSERT_EQ(a.sizes(), b.sizes());
    const double size = a.norm().item<double>(), apart = (a - b).norm().item<double>();
    // Of biases of keys nothing but rounding remains.
    EXPECT_LE(apart, tolerance * std::max(size, 0.1)) << what << " " << i << ": " << size;
  }
}

void expect_as_whole(Case c, double tolerance) {
  const std::optional<ShardDegrees> degrees = c.degrees;
  c.degrees.reset();
  const Outcome whole = pass(c);
  c.degrees = degrees;
  const Outcome cut = pass(c);
  expect_equal(whole.outputs, cut.outputs, tolerance, "output");
  expect_equal(whole.input_gradients, cut.input_gradients, tolerance, "gradient of the input");
  expect_equal(whole.gradients, cut.gradients, tolerance, "gradient of parameter");
}

constexpr ShardDegrees kDegrees[] = {{2, 1, false}, {2, 1, true},  {4, 1, true},
                                     {1, 2, false}, {1, 4, false}, {2, 2, true}};

// In double, so that what remains is an error and no rounding.
TEST(ShardedStage, EqualsTheStageAsItIs) {
  for (const Model& m : {llama(), gpt2(), gemma2(), qwen3(), mixture()}) {
    for (const ShardDegrees& degrees : kDegrees) {
      for (const Slice& slice : {Slice{0, m.layers, true, true}, Slice{0, 1, true, false},
                                 Slice{1, 1, false, false}, Slice{1, 1, false, true}}) {
        SCOPED_TRACE(fmt::format("{} x {} {}, slice from {}, {}", degrees.tensor, degrees.context,
                                 degrees.sequence_parallel, slice.first_layer, slice.head));
        expect_as_whole({m, slice, degrees}, 1e-12);
      }
    }
  }
}

TEST(ShardedStage, NormsThatSpanHeadsSpanShards) {
  for (const ShardDegrees& degrees : {ShardDegrees{2, 1, false}, ShardDegrees{2, 2, true}})
    expect_as_whole({olmo2(), {0, 2, true, true}, degrees}, 1e-12);
}

TEST(ShardedStage, HalvesOfABackwardAddUp) {
  for (const Model& m : {llama(), mixture()}) {
    for (const ShardDegrees& degrees : kDegrees)
      expect_as_whole({m, {0, 2, true, true}, degrees, true}, 1e-12);
  }
}

// bfloat16 has 8 bits, and each sum rounds once more.
TEST(ShardedStage, ComputesInBf16) {
  for (const ShardDegrees& degrees : kDegrees)
    expect_as_whole({llama(), {0, 2, true, true}, degrees, false, at::kBFloat16}, 2e-2);
}

TEST(ShardedStage, NamesWhatCannotBeCut) {
  const auto error_of = [](const Model& m, const ShardDegrees& degrees) {
    auto whole = StageModule::create(m, {0, m.layers, true, true}, 1);
    ShardTeam team(static_cast<int32_t>(degrees.shards()));
    ShardCollectives with(team, degrees);
    const ShardedStage::Strand strand{&with};
    const auto made = ShardedStage::create(*whole, {&strand, 1}, kSamples);
    return made ? std::string() : made.error().text();
  };
  EXPECT_THAT(error_of(llama(), {3, 1, false}), testing::HasSubstr("parallelism.tensor = 3"));
  EXPECT_THAT(error_of(llama(), {1, 3, false}), testing::HasSubstr("parallelism.context = 3"));
  EXPECT_THAT(error_of(olmo2(), {4, 1, false}), testing::HasSubstr("whole_qk_norm"));
  Model odd = mixture();
  odd.experts->ffn = 13;
  EXPECT_THAT(error_of(odd, {2, 1, false}), testing::HasSubstr("experts.ffn = 13"));
}

}  // namespace
}  // namespace tombolo::train
