#include "spec/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/toml.h"
#include "support/folder_test.h"

namespace tombolo::model {
namespace {

using ::testing::HasSubstr;

// Narayanan et al. 2021, equation 2: P = 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)); it leaves out
// the last LayerNorm, 2 h. The names of the four models round the result.
TEST(ModelParameters, EqualTheFormulaOfMegatron) {
  const std::pair<const char*, double> models[] = {
      {"gpt-22b", 22e9}, {"gpt3-175b", 175e9}, {"gpt-530b", 530e9}, {"gpt-1t", 1008e9}};
  for (const auto& [name, nominal] : models) {
    const Model m = *preset(name);
    const int64_t formula = 12 * m.layers * m.hidden * m.hidden + 13 * m.layers * m.hidden +
                            (m.vocabulary + m.sequence) * m.hidden;
    EXPECT_EQ(parameters(m), formula + 2 * m.hidden) << name;
    EXPECT_NEAR(static_cast<double>(parameters(m)) / nominal, 1, 0.005) << name;
  }
}

// Slices add up to the model, but for a tied head away from its embedding, which is a copy.
TEST(ModelParameters, SlicesAddUp) {
  const Model llama = *preset("llama3-8b");
  const int64_t halves =
      parameters(llama, {0, 16, true, false}) + parameters(llama, {16, 16, false, true});
  EXPECT_EQ(halves, parameters(llama));
  const Model gpt2 = *preset("gpt2");
  EXPECT_EQ(parameters(gpt2, {0, 6, true, false}) + parameters(gpt2, {6, 6, false, true}),
            parameters(gpt2) + gpt2.vocabulary * gpt2.hidden);
}

// Korthikanti et al. 2022, appendix A: 72 B l s h^2 (1 + s/(6h) + V/(12 h l)) for forward and
// backward, of which the forward is a third.
TEST(ModelFlops, EqualKorthikanti) {
  for (const char* name : {"gpt-22b", "gpt3-175b", "gpt-530b", "gpt-1t"}) {
    const Model m = *preset(name);
    const auto [l, s, h, V] =
        std::array{static_cast<double>(m.layers), static_cast<double>(m.sequence),
                   static_cast<double>(m.hidden), static_cast<double>(m.vocabulary)};
    const double B = 3;
    const double published = 72 * B * l * s * h * h * (1 + s / (6 * h) + V / (12 * h * l));
    const double ours = 3 * forward_flops(m, {0, m.layers, true, true}, 3).value;
    EXPECT_NEAR(ours / published, 1, 1e-12) << name;
  }
}

// Korthikanti et al. 2022, equation 1: s b h (34 + 5 a s / h) bytes per layer, 34 s b h with
// selective and 2 s b h with full recomputation. GPT-3: 5 a s / h = 80.
TEST(ModelActivations, EqualKorthikanti) {
  const Model m = *preset("gpt3-175b");
  const Slice layer{0, 1, false, false};
  const double sbh = 2048.0 * 4 * 12288;
  EXPECT_EQ(activation_bytes(m, layer, 4, 2, Recompute::kNone).value, sbh * (34 + 80));
  EXPECT_EQ(activation_bytes(m, layer, 4, 2, Recompute::kSelective).value, sbh * 34);
  EXPECT_EQ(activation_bytes(m, layer, 4, 2, Recompute::kFull).value, sbh * 2);
  // The head keeps float32 logits: 4 s b V.
  EXPECT_EQ(activation_bytes(m, {0, 0, false, true}, 4, 2, Recompute::kFull).value,
            4.0 * 2048 * 4 * 51200);
  EXPECT_EQ(boundary_bytes(m, 4, 2).value, 2 * sbh);
}

Result<Model> read(const std::string& text) {
  return read_model(*parse_toml(text, "job.toml"), "job.toml", "model")
      .map([](const ModelSection& section) { return section.model; });
}

TEST(ModelFile, PresetsCanBeOverridden) {
  const Model m = *read("preset = \"gpt3-175b\"\nlayers = 4\nhidden = 1024\nheads = 16");
  EXPECT_EQ(m.layers, 4);
  EXPECT_EQ(m.ffn, 4096);  // follows the width
  EXPECT_EQ(m.kv_heads, 16);
  EXPECT_EQ(m.vocabulary, 51200);
}

TEST(ModelFile, InlineModelsGetDefaults) {
  const Model m = *read("layers = 2\nhidden = 256\nheads = 8\nsequence = 64");
  EXPECT_EQ(m.vocabulary, 256);  // bytes
  EXPECT_EQ(m.kv_heads, 8);
  EXPECT_EQ(m.ffn, 704);  // 8/3 x 256 = 682.7, up to a multiple of 32
}

// [model] lays its own fields over those of a config.json, and passes on what that file says.
using ModelFolder = FolderTest;

TEST_F(ModelFolder, ConfigsCanBeOverridden) {
  const std::string config = R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2,
                                 "n_positions": 128, "vocab_size": 300, "tide": "high"})";
  ASSERT_TRUE(write_file(at("config.json"), config));
  const auto job = [&](const std::string& more) {
    return read_model(*parse_toml("config = \"config.json\"\n" + more, "job.toml"), at("job.toml"),
                      "model");
  };
  const ModelSection whole = *job("");
  EXPECT_EQ(whole.model.sequence, 128);
  EXPECT_THAT(whole.notes,
              ::testing::ElementsAre(HasSubstr("unknown and ignored: tide"),
                                     HasSubstr("model.sequence is left out: 128 tokens")));
  // A shorter sequence leaves the table of positions as long as it is; a longer one does not fit.
  const ModelSection shorter = *job("sequence = 32");
  EXPECT_EQ(shorter.model.sequence, 32);
  EXPECT_EQ(shorter.notes.size(), 1u);
  EXPECT_EQ(parameters(shorter.model), parameters(whole.model));
  EXPECT_EQ(shorter.model.positions_max, 128);
  EXPECT_EQ(departure(shorter.model), "");
  EXPECT_THAT(job("sequence = 256").error().text(), HasSubstr("at least sequence = 256"));

  const std::string bare = R"({"model_type": "llama", "hidden_size": 64, "vocab_size": 300,
      "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 96})";
  ASSERT_TRUE(write_file(at("config.json"), bare));
  EXPECT_THAT(job("").error().text(), HasSubstr("max_position_embeddings"));
  EXPECT_EQ(job("sequence = 32")->model.sequence, 32);
}

// Experts and latent attention are tables; with a preset, fields that are left out stay.
TEST(ModelFile, TablesLayOverTablesFieldByField) {
  const Model m = *read(
      "layers = 2\nhidden = 256\nheads = 8\nsequence = 64\n"
      "[experts]\ncount = 8\nper_token = 2");
  EXPECT_EQ(m.experts->ffn, 704);  // that of the model
  const Model half = *read("preset = \"deepseek-v3\"\nlayers = 30\n[experts]\ncount = 128");
  EXPECT_EQ(half.experts->count, 128);
  EXPECT_EQ(half.experts->per_token, 8);
  EXPECT_EQ(half.experts->dense_layers, 3);
  EXPECT_EQ(half.latent_attention, preset("deepseek-v3")->latent_attention);
  const Model latent = *read(
      "preset = \"llama3-8b\"\nkv_heads = 32\n[latent_attention]\n"
      "kv_rank = 512\nnope_dim = 128\nrope_dim = 64\nvalue_dim = 128");
  EXPECT_EQ(latent.latent_attention->query_rank, 0);
}

TEST(ModelFile, SaysWhatIsWrong) {
  const auto complaint = [](const std::string& text) {
    const Result<Model> model = read(text);
    return model ? "accepted" : model.error().text();
  };
  EXPECT_THAT(complaint("preset = \"gpt4\""), HasSubstr("there is no preset \"gpt4\""));
  EXPECT_THAT(complaint("preset = \"gpt2\"\nlayer = 3"), HasSubstr("layers"));
  EXPECT_THAT(complaint("config = \"no-such.json\""), HasSubstr("no-such.json"));
  EXPECT_THAT(complaint("config = \"config.json\"\npreset = \"gpt2\""),
              HasSubstr("cannot be combined with preset"));
  EXPECT_THAT(complaint("preset = \"gpt2\"\nexperts = 8"), HasSubstr("wanted a table"));
  EXPECT_THAT(complaint("preset = \"gpt2\"\n[experts]\ncount = 8"),
              HasSubstr("per_token is missing"));
  EXPECT_THAT(complaint("preset = \"deepseek-v3\"\nlayers = 2"),
              HasSubstr("dense_layers = 3 of 2 layers"));
  EXPECT_THAT(complaint("preset = \"mixtral-8x7b\"\n[experts]\nper_token = 9"),
              HasSubstr("must lie between 1 and count = 8"));
  EXPECT_THAT(complaint("preset = \"mixtral-8x7b\"\n[experts]\ncount = 1000"),
              HasSubstr("count times ffn must be at most 10000000"));
  EXPECT_THAT(complaint("preset = \"mixtral-8x7b\"\n[experts]\nshared_gate = true"),
              HasSubstr("without a shared expert"));
  EXPECT_THAT(complaint("preset = \"deepseek-v3\"\nkv_heads = 8"),
              HasSubstr("has its own widths and a key for each head"));
  EXPECT_THAT(complaint("preset = \"gpt2\"\nmulti_token_layers = 101"),
              HasSubstr("must lie between 0 and 100"));
  EXPECT_THAT(complaint("preset = \"gpt2\"\nheads = 7"), HasSubstr("must divide hidden = 768"));
  EXPECT_THAT(complaint("layers = 0\nhidden = 8\nheads = 1\nsequence = 1"),
              HasSubstr("must lie between 1 and 100000"));
}

TEST(Model, CallersKeepTheirPromises) {
  Model m = *preset("llama3-8b");
  const Slice whole{0, m.layers, true, true};
  EXPECT_DEATH(forward_flops(m, whole, 0), "work on 0 samples");
  EXPECT_DEATH(boundary_bytes(m, 1, 0), "a boundary of 0 bytes each");
  EXPECT_DEATH(activation_bytes(m, whole, 1, 0, Recompute::kNone), "activations of 0 bytes each");
  m.kv_heads = 0;
  EXPECT_DEATH(parameters(m), "a model is not resolved: hidden 4096, .*, kv_heads 0");
  m.heads = 0;
  EXPECT_DEATH(m.head_size(), "4096 numbers in 0 heads");
}

}  // namespace
}  // namespace tombolo::model
