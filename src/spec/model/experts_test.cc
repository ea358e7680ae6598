// Mixtures of experts, latent attention and multi-token layers, on models small enough to count by
// hand.
#include <gtest/gtest.h>

#include "spec/model/model.h"

namespace tombolo::model {
namespace {

// Three layers, the first of them dense. Hidden 4, two heads of 2, one for keys and values.
Model tiny() {
  Model m;
  m.layers = 3;
  m.hidden = 4;
  m.heads = 2;
  m.kv_heads = 1;
  m.ffn = 6;
  m.vocabulary = 10;
  m.sequence = 8;
  m.experts = Experts{.count = 4, .per_token = 2, .ffn = 3, .shared_ffn = 5, .dense_layers = 1};
  return m;
}

// Attention 4 x (4 + 2 + 2) + 4 x 4 = 48, norms 2 x 4; MLP 3 x 4 x 6 = 72; router 4 x 4, shared
// expert 3 x 4 x 5 = 60, an expert 3 x 4 x 3 = 36. Embedding and head 10 x 4 each, last norm 4.
TEST(Experts, ParametersByHand) {
  const Model m = tiny();
  const int64_t dense = 48 + 8 + 72, sparse = 48 + 8 + 16 + 60 + 4 * 36;
  EXPECT_EQ(parameters(m, {0, 1, false, false}), dense);
  EXPECT_EQ(parameters(m, {1, 1, false, false}), sparse);
  EXPECT_EQ(parameters(m, {0, 3, false, false}), dense + 2 * sparse);
  EXPECT_EQ(parameters(m), dense + 2 * sparse + 40 + 40 + 4);
  EXPECT_EQ(parameters(m, {0, 2, true, false}) + parameters(m, {2, 1, false, true}), parameters(m));
  EXPECT_EQ(expert_parameters(m, {0, 1, true, false}), 0);
  EXPECT_EQ(expert_parameters(m, {0, 3, true, true}), 2 * 4 * 36);
  EXPECT_EQ(active_parameters(m), parameters(m) - 2 * 2 * 36);
}

// Biases: of an expert 2 x 3 + 4 = 10, of the shared one 2 x 5 + 4 = 14, of the router 4; a number
// per expert's score, 4; a gate of 4 on the shared expert.
TEST(Experts, BiasesAndGatesByHand) {
  const int64_t plain = parameters(tiny());
  Model m = tiny();
  m.experts->bias = true;
  EXPECT_EQ(parameters(m) - plain, 2 * (4 * 10 + 14 + 4));
  EXPECT_EQ(expert_parameters(m, {1, 1, false, false}), 4 * (36 + 10));
  m = tiny();
  m.experts->score_bias = true;
  EXPECT_EQ(parameters(m) - plain, 2 * 4);
  m = tiny();
  m.experts->shared_gate = true;
  EXPECT_EQ(parameters(m) - plain, 2 * 4);
}

// 8 tokens. Attention 2 x 8 x 48 + 4 x 8 x 8 x 4; MLP 2 x 8 x 72; two experts, the shared one and
// the router 2 x 8 x (2 x 36 + 60 + 16); head 2 x 8 x 4 x 10. Idle experts cost nothing.
TEST(Experts, FlopsCountThoseThatATokenMeets) {
  Model m = tiny();
  const double attention = 768 + 1024, mlp = 1152, experts = 16 * (72 + 60 + 16), head = 640;
  EXPECT_EQ(forward_flops(m, {0, 1, true, false}, 1).value, attention + mlp);
  EXPECT_EQ(forward_flops(m, {1, 1, false, false}, 1).value, attention + experts);
  EXPECT_EQ(forward_flops(m, {0, 3, true, true}, 2).value,
            2 * (3 * attention + mlp + 2 * experts + head));
  EXPECT_EQ(score_flops(m, {0, 3, true, true}, 1).value, 3 * 1024);
  m.experts->count = 100;  // only the router grows
  EXPECT_EQ(forward_flops(m, {1, 1, false, false}, 1).value, attention + experts + 16 * 4 * 96);
}

// Per token: 18 h around the MLP, 6 bytes for each of the 2 x 3 + 5 numbers inside it, and a copy
// of 2 h for each of two experts; the dense layer as ever.
TEST(Experts, ActivationsByHand) {
  const Model m = tiny();
  const double sparse = 8 * (18 * 4 + 6 * 11 + 2 * 2 * 4), dense = 8 * 34 * 4;
  EXPECT_EQ(activation_bytes(m, {1, 1, false, false}, 1, 2, Recompute::kSelective).value, sparse);
  EXPECT_EQ(activation_bytes(m, {0, 3, true, false}, 1, 2, Recompute::kSelective).value,
            dense + 2 * sparse);
  EXPECT_EQ(activation_bytes(m, {1, 1, false, false}, 1, 2, Recompute::kNone).value,
            sparse + 5 * 2 * 8 * 8);
  EXPECT_EQ(activation_bytes(m, {1, 1, false, false}, 1, 2, Recompute::kFull).value, 8 * 2 * 4);
}

// One expert for all tokens, without a router to speak of, is an MLP: the same FLOPs but for the
// router, and the same activations where it is 8/3 h wide.
TEST(Experts, OneExpertIsAnMlp) {
  Model m = tiny();
  m.hidden = 12;
  m.ffn = 32;
  m.experts = Experts{.count = 1, .per_token = 1, .ffn = 32};
  Model dense = m;
  dense.experts.reset();
  const Slice layer{0, 1, false, false};
  EXPECT_EQ(parameters(m, layer) - parameters(dense, layer), 12);
  EXPECT_EQ(forward_flops(m, layer, 1).value - forward_flops(dense, layer, 1).value, 2 * 8 * 12);
  const auto kept = [&](const Model& model) {
    return activation_bytes(model, layer, 1, 2, Recompute::kSelective).value;
  };
  EXPECT_EQ(kept(m) - kept(dense), 8 * 2 * 12);  // the copy that is sent to the expert
}

// Queries 4 x 3 down, a norm of 3, 3 x 2 x (2 + 2) up; keys and values 4 x (5 + 2) down, a norm of
// 5, 5 x 2 x (2 + 3) up; out 2 x 3 x 4.
TEST(LatentAttention, ByHand) {
  Model m = tiny();
  m.kv_heads = 2;
  m.experts.reset();
  const int64_t usual = 4 * (4 + 4 + 4) + 4 * 4;
  const int64_t without = parameters(m, {0, 1, false, false}) - usual;
  m.latent_attention =
      LatentAttention{.query_rank = 3, .kv_rank = 5, .nope_dim = 2, .rope_dim = 2, .value_dim = 3};
  const int64_t matrices = (12 + 24) + (28 + 50) + 24;
  EXPECT_EQ(parameters(m, {0, 1, false, false}) - without, matrices + 3 + 5);
  // 8 tokens: scores over 2 x 4 numbers, their products with 2 x 3.
  const double scores = 2.0 * 8 * 8 * (8 + 6);
  EXPECT_EQ(score_flops(m, {0, 1, false, false}, 1).value, scores);
  EXPECT_EQ(forward_flops(m, {0, 1, false, false}, 1).value,
            2 * 8 * static_cast<double>(matrices + 72) + scores);
  // Kept: 26 h, queries and keys of 2 x 4, values and context of 2 x 3, and 3 + 5 before and after
  // their norms, 2 bytes each.
  EXPECT_EQ(activation_bytes(m, {0, 1, false, false}, 1, 2, Recompute::kSelective).value,
            8 * (26 * 4 + 2 * (2 * 8 + 2 * 6 + 2 * 8)));
  m.latent_attention->query_rank = 0;  // 4 x 2 x (2 + 2) in one matrix, and no norm
  EXPECT_EQ(parameters(m, {0, 1, false, false}) - without, 32 + 28 + 5 + 50 + 24);
  m.qkv_bias = true;  // of the compression: 5 + 2
  EXPECT_EQ(parameters(m, {0, 1, false, false}) - without, 32 + 28 + 5 + 50 + 24 + 7);
}

// A layer as the last one, three norms, a projection of 8 x 4; the head works once more. A last
// stage needs a copy of the embedding for it.
TEST(MultiTokenLayers, StandAtTheHead) {
  const Model plain = tiny();
  Model m = tiny();
  m.multi_token_layers = 1;
  const int64_t layer = parameters(m, {2, 1, false, false});
  EXPECT_EQ(parameters(m) - parameters(plain), layer + 3 * 4 + 2 * 4 * 4);
  const Slice last{2, 1, false, true};
  EXPECT_EQ(parameters(m, last) - parameters(plain, last), layer + 3 * 4 + 2 * 4 * 4 + 10 * 4);
  EXPECT_EQ(parameters(m, {0, 2, true, false}), parameters(plain, {0, 2, true, false}));
  EXPECT_EQ(expert_parameters(m, last), 2 * 4 * 36);
  const double work = forward_flops(plain, {2, 1, false, false}, 1).value;
  EXPECT_EQ(forward_flops(m, last, 1).value - forward_flops(plain, last, 1).value,
            work + 2 * 8 * 32 + 640);
  const auto kept = [&](const Model& model) {
    return activation_bytes(model, last, 1, 2, Recompute::kFull).value;
  };
  EXPECT_EQ(kept(m) - kept(plain), 8 * 2 * 4 + 4 * 8 * 10);
}

// Squared ReLU has no gate: two matrices of 4 x 6.
TEST(SquaredRelu, HasTwoMatrices) {
  Model m = tiny();
  m.experts.reset();
  const int64_t gated = parameters(m, {0, 1, false, false});
  m.activation = Activation::kSquaredRelu;
  EXPECT_EQ(gated - parameters(m, {0, 1, false, false}), 24);
}

// What else departs from Llama and GPT-2, each alone: norms of head size 2 on queries and keys, a
// sink per head, two norms more per layer, a norm on the embedding, LayerNorms without bias.
TEST(Departures, CountByHand) {
  Model m = tiny();
  m.experts.reset();
  const auto more = [&](auto change) {
    Model changed = m;
    change(changed);
    return parameters(changed) - parameters(m);
  };
  EXPECT_EQ(more([](Model& x) { x.qk_norm = true; }), 3 * 2 * 2);
  EXPECT_EQ(more([](Model& x) { x.attention_sinks = true; }), 3 * 2);
  EXPECT_EQ(more([](Model& x) { x.output_norms = true; }), 3 * 2 * 4);
  EXPECT_EQ(more([](Model& x) { x.embedding_norm = true; }), 4);
  EXPECT_EQ(more([](Model& x) { x.norm = Norm::kLayer; }), 7 * 4);
  EXPECT_EQ(more([](Model& x) { x.norm = Norm::kLayer, x.norm_bias = false; }), 0);
  EXPECT_EQ(more([](Model& x) { x.positions = Positions::kAlibi; }), 0);
}

TEST(Experts, ATokenMeetsNoMoreThanThereAre) {
  Model m = *preset("mixtral-8x7b");
  m.experts->per_token = 9;
  EXPECT_DEATH(active_parameters(m), "a token meets 9 of 8 experts");
}

}  // namespace
}  // namespace tombolo::model
