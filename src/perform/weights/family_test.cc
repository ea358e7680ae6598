#include "perform/weights/family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "perform/weights/config_text.h"

namespace tombolo::weights {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

model::Model small(Family family) {
  model::Model m{.layers = 2,
                 .hidden = 8,
                 .heads = 4,
                 .kv_heads = 2,
                 .ffn = 12,
                 .vocabulary = 10,
                 .sequence = 6};
  if (family == Family::kQwen2) m.qkv_bias = true;
  if (family == Family::kQwen3) {
    m.qk_norm = true;
    m.head_dim = 6;
    m.tied_embeddings = true;
  }
  if (family == Family::kOlmo2) {
    m.input_norms = false;
    m.output_norms = m.whole_qk_norm = true;
  }
  if (family == Family::kSmolLm3) m.nope_interval = 2;
  if (family == Family::kGemma || family == Family::kGemma2) {
    m.activation = model::Activation::kGeglu;
    m.unit_offset_norms = m.scaled_embedding = true;
    m.head_dim = 6;
    m.tied_embeddings = true;
  }
  if (family == Family::kGemma2) {
    m.output_norms = true;
    m.query_scalar = 4;
    m.attention_softcap = 50;
    m.logit_softcap = 30;
    m.attention_window = 3;
    m.global_interval = 2;
  }
  if (family == Family::kMixtral)
    m.experts = model::Experts{.count = 3, .per_token = 2, .ffn = m.ffn};
  if (family == Family::kQwen3Moe) {
    m.qk_norm = true;
    m.experts = model::Experts{.count = 3, .per_token = 2, .ffn = 5, .dense_layers = 1};
  }
  if (family == Family::kLlama) m.rope_scaling = model::RopeScaling{};
  if (family == Family::kGpt2) {
    m.norm = model::Norm::kLayer;
    m.activation = model::Activation::kGelu;
    m.positions = model::Positions::kLearned;
    m.kv_heads = 4;
    m.bias = m.tied_embeddings = true;
  }
  return m;
}

// Whatever is counted is there, once.
TEST(Family, TensorsAreTheParametersOfTheModel) {
  for (const auto& [family, name] : enum_names(Family{})) {
    const model::Model m = small(family);
    int64_t ours = 0, theirs = 0;
    size_t parts = 0;
    std::set<std::string> names;
    for (const Tensor& tensor : tensors_of(m)) {
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
      ours += tensor.shape[0] * (tensor.shape.size() > 1 ? tensor.shape[1] : 1);
    }
    for (const TheirTensor& tensor : their_tensors(family, m)) {
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
      theirs += tensor.shape[0] * (tensor.shape.size() > 1 ? tensor.shape[1] : 1);
      parts += tensor.parts.size();
    }
    EXPECT_EQ(ours, model::parameters(m)) << name;
    EXPECT_EQ(theirs, ours) << name;
    EXPECT_EQ(parts, tensors_of(m).size()) << name;
  }
}

TEST(Family, NamesAreThoseOfTransformers) {
  EXPECT_EQ(place_of(Family::kLlama, "layers.3.attention.query.weight"),
            (Place{"model.layers.3.self_attn.q_proj.weight"}));
  EXPECT_EQ(place_of(Family::kQwen2, "layers.11.attention.key.bias"),
            (Place{"model.layers.11.self_attn.k_proj.bias"}));
  EXPECT_EQ(place_of(Family::kQwen3, "layers.0.attention.key_norm.weight"),
            (Place{"model.layers.0.self_attn.k_norm.weight"}));
  EXPECT_EQ(place_of(Family::kMistral, "head.weight"), (Place{"lm_head.weight"}));
  EXPECT_EQ(place_of(Family::kPhi3, "layers.0.attention.key.weight"),
            (Place{"model.layers.0.self_attn.qkv_proj.weight", false, 1, 3}));
  EXPECT_EQ(place_of(Family::kPhi3, "layers.0.mlp_norm.weight"),
            (Place{"model.layers.0.post_attention_layernorm.weight"}));
  EXPECT_EQ(place_of(Family::kOlmo2, "layers.0.attention_output_norm.weight"),
            (Place{"model.layers.0.post_attention_layernorm.weight"}));
  EXPECT_EQ(place_of(Family::kGemma, "layers.0.mlp_norm.weight"),
            (Place{"model.layers.0.post_attention_layernorm.weight"}));
  EXPECT_EQ(place_of(Family::kGemma2, "layers.0.attention_output_norm.weight"),
            (Place{"model.layers.0.post_attention_layernorm.weight"}));
  EXPECT_EQ(place_of(Family::kGemma2, "layers.0.mlp_norm.weight"),
            (Place{"model.layers.0.pre_feedforward_layernorm.weight"}));
  EXPECT_EQ(place_of(Family::kMixtral, "layers.2.mlp.router.weight"),
            (Place{"model.layers.2.block_sparse_moe.gate.weight"}));
  EXPECT_EQ(place_of(Family::kMixtral, "layers.2.mlp.experts.11.up.weight"),
            (Place{"model.layers.2.block_sparse_moe.experts.11.w3.weight"}));
  EXPECT_EQ(place_of(Family::kQwen3Moe, "layers.1.mlp.router.weight"),
            (Place{"model.layers.1.mlp.gate.weight"}));
  EXPECT_EQ(place_of(Family::kQwen3Moe, "layers.0.mlp.gate.weight"),
            (Place{"model.layers.0.mlp.gate_proj.weight"}));
  EXPECT_EQ(place_of(Family::kQwen3Moe, "layers.1.mlp.experts.0.down.weight"),
            (Place{"model.layers.1.mlp.experts.0.down_proj.weight"}));
  EXPECT_EQ(place_of(Family::kGpt2, "positions.weight"), (Place{"transformer.wpe.weight"}));
  EXPECT_EQ(place_of(Family::kGpt2, "layers.1.attention.value.weight"),
            (Place{"transformer.h.1.attn.c_attn.weight", true, 2, 3}));
  EXPECT_EQ(place_of(Family::kGpt2, "layers.1.attention.value.bias"),
            (Place{"transformer.h.1.attn.c_attn.bias", false, 2, 3}));
}

// Conv1D has inputs first, and query, key and value next to each other.
TEST(Family, Gpt2HoldsThreeMatricesInOne) {
  const auto tensors = their_tensors(Family::kGpt2, small(Family::kGpt2));
  const auto found = std::find_if(tensors.begin(), tensors.end(), [](const TheirTensor& tensor) {
    return tensor.name == "transformer.h.0.attn.c_attn.weight";
  });
  ASSERT_NE(found, tensors.end());
  EXPECT_THAT(found->shape, ElementsAre(8, 24));
  ASSERT_EQ(found->parts.size(), 3u);
  EXPECT_EQ(found->parts[1].name, "layers.0.attention.key.weight");
}

// Eight queries, four keys and four values in one, and gate and up in another.
TEST(Family, Phi3HoldsPartsOfUnlikeSizes) {
  const model::Model m = small(Family::kPhi3);
  EXPECT_THAT(outputs_of_parts(place_of(Family::kPhi3, "layers.1.attention.value.weight"), m),
              ElementsAre(8, 4, 4));
  EXPECT_THAT(outputs_of_parts(place_of(Family::kPhi3, "layers.1.mlp.up.weight"), m),
              ElementsAre(12, 12));
  for (const TheirTensor& tensor : their_tensors(Family::kPhi3, m)) {
    if (!tensor.name.ends_with("qkv_proj.weight")) continue;
    EXPECT_THAT(tensor.shape, ElementsAre(16, 8));
    EXPECT_EQ(tensor.parts.size(), 3u);
  }
}

TEST(Family, IsChosenByTheModel) {
  EXPECT_EQ(family_of(small(Family::kLlama)), Family::kLlama);
  EXPECT_EQ(family_of(small(Family::kMistral)), Family::kLlama) << "the same tensors";
  EXPECT_EQ(family_of(small(Family::kQwen2)), Family::kQwen2);
  EXPECT_EQ(family_of(small(Family::kQwen3)), Family::kQwen3);
  EXPECT_EQ(family_of(small(Family::kPhi3)), Family::kLlama) << "the same but for the files";
  EXPECT_EQ(family_of(small(Family::kOlmo2)), Family::kOlmo2);
  EXPECT_EQ(family_of(small(Family::kSmolLm3)), Family::kSmolLm3);
  EXPECT_EQ(family_of(small(Family::kGpt2)), Family::kGpt2);
  model::Model odd = small(Family::kLlama);
  odd.norm = model::Norm::kLayer;
  EXPECT_FALSE(family_of(odd));
  EXPECT_EQ(mismatch(Family::kGpt2, odd), "activation is not gelu");
}

TEST(ConfigText, OfEveryFamilyReadsBackAsTheSameModel) {
  for (const auto& [family, name] : enum_names(Family{})) {
    const model::Model m = small(family);
    const auto config = parse_config(config_text(family, m, NumberType::kF32), "config.json");
    ASSERT_TRUE(config) << config.error().text();
    EXPECT_EQ(config->family, family);
    const Status same = check_same_model(m, *config, "config.json");
    EXPECT_TRUE(same) << same.error().text();
    EXPECT_EQ(config->model.sequence, 6) << name;
  }
}

TEST(ConfigText, NamesTheFirstKeyThatDiffers) {
  const auto config =
      parse_config(config_text(Family::kQwen3, small(Family::kQwen3), NumberType::kBf16), "a.json");
  ASSERT_TRUE(config);
  const auto message = [&](auto change) {
    model::Model job = small(Family::kQwen3);
    change(job);
    const Status same = check_same_model(job, *config, "a.json");
    return same ? "" : same.error().text();
  };
  EXPECT_EQ(message([](model::Model& m) { m.name = "mine"; }), "");
  EXPECT_EQ(message([](model::Model& m) { m.sequence = 3; }), "");
  EXPECT_THAT(message([](model::Model& m) { m.ffn = 16; }),
              HasSubstr("model.ffn is 16 in the job and 12 in a.json"));
  EXPECT_THAT(message([](model::Model& m) { m.head_dim.reset(); }),
              HasSubstr("model.head_dim is 2 in the job and 6 in a.json"));
  EXPECT_THAT(message([](model::Model& m) { m.rope_scaling = model::RopeScaling{}; }),
              HasSubstr("in the job and nothing in a.json"));
}

}  // namespace
}  // namespace tombolo::weights
