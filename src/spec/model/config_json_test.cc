#include "spec/model/config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/model_config.h"

namespace tombolo::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// As their authors publish them.
constexpr const char* kLlama3_8b = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 128000, "eos_token_id": 128001, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 8192,
  "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null,
  "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "transformers_version": "4.40.0.dev0", "use_cache": true, "vocab_size": 128256})";

constexpr const char* kLlama2_7b = R"({
  "_name_or_path": "meta-llama/Llama-2-7b-hf", "architectures": ["LlamaForCausalLM"],
  "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 4096,
  "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null,
  "tie_word_embeddings": false, "torch_dtype": "float16", "transformers_version": "4.31.0.dev0",
  "use_cache": true, "vocab_size": 32000})";

constexpr const char* kMistral7b = R"({
  "architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "transformers_version": "4.34.0.dev0", "use_cache": true, "vocab_size": 32000})";

constexpr const char* kQwen2_7b = R"({
  "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
  "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 3584, "initializer_range": 0.02,
  "intermediate_size": 18944, "max_position_embeddings": 131072, "max_window_layers": 28,
  "model_type": "qwen2", "num_attention_heads": 28, "num_hidden_layers": 28,
  "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
  "sliding_window": 131072, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "transformers_version": "4.41.2", "use_cache": true, "use_sliding_window": false,
  "vocab_size": 152064})";

constexpr const char* kGpt2 = R"({
  "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
  "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
  "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
  "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null,
  "summary_first_dropout": 0.1, "summary_proj_to_labels": true, "summary_type": "cls_index",
  "summary_use_proj": true,
  "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}},
  "vocab_size": 50257})";

constexpr const char* kGptNeox20b = R"({
  "architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0, "eos_token_id": 0,
  "hidden_act": "gelu_fast", "hidden_size": 6144, "initializer_range": 0.02,
  "intermediate_size": 24576, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048,
  "model_type": "gpt_neox", "num_attention_heads": 64, "num_hidden_layers": 44,
  "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": false,
  "torch_dtype": "float16", "transformers_version": "4.19.0.dev0", "use_cache": true,
  "vocab_size": 50432})";

// kLlama3_8b with one piece of text replaced.
std::string llama_with(const std::string& from, const std::string& to) {
  return changed(from, to, kLlama3_8b);
}

TEST(ConfigJson, CountsWhatCheckpointsHold) {
  EXPECT_EQ(parameters(read_config(kLlama3_8b).model), 8'030'261'248);
  EXPECT_EQ(parameters(read_config(kLlama2_7b).model), 6'738'415'616);
  EXPECT_EQ(parameters(read_config(kMistral7b).model), 7'241'732'096);
  EXPECT_EQ(parameters(read_config(kQwen2_7b).model), 7'615'616'512);
  EXPECT_EQ(parameters(read_config(kGpt2).model), 124'439'808);
  EXPECT_EQ(parameters(read_config(kGptNeox20b).model), 20'554'567'680);
  std::string large = llama_with("\"hidden_size\": 4096", "\"hidden_size\": 8192");
  large = changed("14336", "28672", large);
  large = changed("\"num_attention_heads\": 32", "\"num_attention_heads\": 64", large);
  large = changed("\"num_hidden_layers\": 32", "\"num_hidden_layers\": 80", large);
  EXPECT_EQ(parameters(read_config(large).model), 70'553'706'496);
}

TEST(ConfigJson, ReadsTheSameShapesAsThePresets) {
  Model llama = read_config(kLlama3_8b).model;
  llama.name = "llama3-8b";
  EXPECT_EQ(llama, *preset("llama3-8b"));
  const Model gpt2 = read_config(kGpt2).model;
  EXPECT_EQ(parameters(gpt2), parameters(*preset("gpt2")));
  EXPECT_EQ(departure(gpt2), "");
  EXPECT_EQ(read_config(kLlama2_7b).model.name, "Llama-2-7b-hf");
}

TEST(ConfigJson, NamesWhatTrainingCannotPerform) {
  EXPECT_EQ(departure(read_config(kLlama3_8b).model), "");
  EXPECT_EQ(departure(read_config(kQwen2_7b).model), "");
  EXPECT_EQ(departure(read_config(kGptNeox20b).model), "parallel_residual = true");
  const Model wide =
      read_config(llama_with("\"hidden_act\"", "\"head_dim\": 256, \"hidden_act\"")).model;
  EXPECT_EQ(departure(wide), "");
}

// Llama 3.1's config.json; other scalings change no count, and are left to who computes with them.
TEST(ConfigJson, ReadsHowLlamaStretchesItsPositions) {
  const auto scaled = [](const char* scaling) {
    return read_config(llama_with("\"rope_scaling\": null",
                                  fmt::format("\"rope_scaling\": {}", scaling).c_str()))
        .model.rope_scaling;
  };
  const auto llama31 = scaled(
      "{\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
      "\"original_max_position_embeddings\": 8192, \"rope_type\": \"llama3\"}");
  ASSERT_TRUE(llama31);
  EXPECT_EQ(*llama31, (RopeScaling{8, 1, 4, 8192}));
  EXPECT_FALSE(scaled("{\"factor\": 4.0, \"rope_type\": \"yarn\"}"));
  EXPECT_FALSE(scaled("null"));
}

// 32 heads of 256 are 8192 wide, 8 key and value heads 2048 each. A layer has 4096 x 8192 more
// parameters for queries, 4096 x 2048 for keys and values, 8192 x 4096 for the projection, and
// twice the work in scores.
TEST(ConfigJson, HeadsMayHaveAWidthOfTheirOwn) {
  const Model usual = read_config(kLlama3_8b).model;
  const Model wide =
      read_config(llama_with("\"hidden_act\"", "\"head_dim\": 256, \"hidden_act\"")).model;
  const int64_t more = 4096 * (4096 + 2 * 1024 + 4096);
  EXPECT_EQ(parameters(wide) - parameters(usual), 32 * more);
  const Slice layer{0, 1, false, false};
  const double flops = (forward_flops(wide, layer, 1) - forward_flops(usual, layer, 1)).value;
  EXPECT_EQ(flops, 2.0 * 8192 * static_cast<double>(more) + 4.0 * 8192 * 8192 * 4096);
}

// Biases: of queries, keys and values 4096 + 2 x 1024, of the projection 4096, of the MLP
// 2 x 14336 + 4096.
TEST(ConfigJson, BiasesCount) {
  const int64_t none = parameters(read_config(kLlama3_8b).model);
  const int64_t attention = parameters(
      read_config(llama_with("\"attention_bias\": false", "\"attention_bias\": true")).model);
  EXPECT_EQ(attention - none, 32 * (6144 + 4096));
  const int64_t mlp = parameters(
      read_config(llama_with("\"hidden_act\"", "\"mlp_bias\": true, \"hidden_act\"")).model);
  EXPECT_EQ(mlp - none, 32 * (2 * 14336 + 4096));
}

TEST(ConfigJson, TiedEmbeddingsCountOnce) {
  const std::string tied =
      llama_with("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
  EXPECT_EQ(parameters(read_config(kLlama3_8b).model) - parameters(read_config(tied).model),
            128256 * 4096);
}

TEST(ConfigJson, ListsWhatItIgnores) {
  EXPECT_THAT(read_config(kLlama3_8b).notes, IsEmpty());
  EXPECT_THAT(read_config(kQwen2_7b).notes, IsEmpty());  // its window is switched off
  EXPECT_THAT(read_config(kGpt2).notes, IsEmpty());
  EXPECT_THAT(read_config(kMistral7b).notes, IsEmpty());
  EXPECT_EQ(read_config(kMistral7b).model.attention_window, 4096);
  EXPECT_THAT(
      read_config(llama_with("\"use_cache\"", "\"moon_phase\": 3, \"tide\": {}, \"use_cache\""))
          .notes,
      ElementsAre("config.json: unknown and ignored: moon_phase, tide"));
  EXPECT_THAT(read_config(llama_with("\"model_type\": \"llama\", ", "")).notes,
              ElementsAre(HasSubstr("no model_type: read as llama")));
  EXPECT_THAT(read_config(llama_with("silu", "gelu")).notes, ElementsAre(HasSubstr("hidden_act")));
}

// Neither a count nor a time depends on how positions are rotated, but what is trained does.
TEST(ConfigJson, SaysWhichRotationsItIgnores) {
  EXPECT_THAT(read_config(kGptNeox20b).notes, IsEmpty());
  EXPECT_EQ(read_config(kGptNeox20b).model.rotary_share, 0.25);
  const auto notes = [](const char* rope) {
    return read_config(llama_with("\"rope_scaling\": null", rope)).notes;
  };
  EXPECT_THAT(notes("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}"),
              ElementsAre(HasSubstr("rope_scaling of type \"linear\" is ignored")));
  EXPECT_THAT(notes("\"rope_scaling\": {\"rope_type\": \"default\"}"), IsEmpty());
  EXPECT_THAT(notes("\"partial_rotary_factor\": 1.0"), IsEmpty());
  const auto share = [](const char* rope) {
    return read_config(llama_with("\"rope_scaling\": null", rope)).model.rotary_share;
  };
  EXPECT_EQ(share("\"rope_parameters\": {\"rope_type\": \"default\", "
                  "\"partial_rotary_factor\": 0.5}"),
            0.5);
  EXPECT_EQ(share("\"partial_rotary_factor\": 1.0"), std::nullopt);
  EXPECT_THAT(
      config_complaint(llama_with("\"rope_scaling\": null", "\"partial_rotary_factor\": 2")),
      HasSubstr("partial_rotary_factor = 2: wanted a number between 0 and 1"));
}

TEST(ConfigJson, RefusesWhatContradictsItself) {
  EXPECT_THAT(config_complaint(llama_with("\"hidden_size\": 4096", "\"hidden_size\": 4097")),
              HasSubstr("num_attention_heads = 32: does not divide hidden_size = 4097"));
  EXPECT_THAT(
      config_complaint(llama_with("\"num_key_value_heads\": 8", "\"num_key_value_heads\": 5")),
      HasSubstr("num_key_value_heads = 5: does not divide num_attention_heads = 32"));
  EXPECT_THAT(
      config_complaint(llama_with("\"num_key_value_heads\": 8", "\"num_key_value_heads\": 64")),
      HasSubstr("num_key_value_heads = 64"));
  EXPECT_THAT(
      config_complaint(llama_with("\"model_type\": \"llama\"", "\"model_type\": \"mistral\"")),
      HasSubstr("contradicts architectures"));
  EXPECT_THAT(config_complaint(changed("\"n_ctx\": 1024", "\"n_ctx\": 2048", kGpt2)),
              HasSubstr("n_ctx = 2048: contradicts n_positions = 1024"));
  EXPECT_THAT(
      config_complaint(llama_with("\"hidden_act\"", "\"layer_types\": [\"full\"], \"hidden_act\"")),
      HasSubstr("layer_types"));
  EXPECT_THAT(config_complaint(llama_with("\"hidden_act\"", "\"head_dim\": 3, \"hidden_act\"")),
              HasSubstr("cannot be rotated"));
}

TEST(ConfigJson, RefusesWhatItCannotCount) {
  EXPECT_THAT(
      config_complaint(llama_with("\"hidden_act\"", "\"num_local_experts\": 8, \"hidden_act\"")),
      HasSubstr("a family without experts"));
  EXPECT_THAT(
      config_complaint(llama_with("\"model_type\": \"llama\"", "\"model_type\": \"mamba\"")),
      HasSubstr("model_type = \"mamba\""));
  EXPECT_THAT(config_complaint(llama_with("\"vocab_size\": 128256", "\"words\": 1")),
              HasSubstr("config.json: vocab_size is missing"));
  EXPECT_THAT(config_complaint(llama_with("\"vocab_size\": 128256", "\"vocab_size\": \"many\"")),
              HasSubstr("vocab_size = \"many\": wanted a whole number"));
  EXPECT_THAT(config_complaint(llama_with("\"vocab_size\": 128256", "\"vocab_size\": -1")),
              HasSubstr("wanted a whole number between 1 and"));
  EXPECT_THAT(config_complaint("{\"model_type\": \"llama\"}"),
              HasSubstr("num_hidden_layers is missing"));
  EXPECT_THAT(config_complaint("[]"), HasSubstr("wanted a table"));
  EXPECT_THAT(config_complaint("{"), HasSubstr("config.json"));
}

}  // namespace
}  // namespace tombolo::model
