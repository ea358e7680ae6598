// Families of config.json with experts, latent attention and what else departs from Llama and
// GPT-2. The files are those of the published checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "spec/model/config_json.h"
#include "support/model_config.h"

namespace tombolo::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kMixtral8x7b = R"({
  "architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1,
  "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mixtral",
  "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false,
  "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02,
  "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "transformers_version": "4.36.0.dev0", "use_cache": true, "vocab_size": 32000})";

constexpr const char* kQwen15MoeA27b = R"({
  "architectures": ["Qwen2MoeForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
  "decoder_sparse_step": 1, "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 2048,
  "initializer_range": 0.02, "intermediate_size": 5632, "max_position_embeddings": 8192,
  "max_window_layers": 21, "model_type": "qwen2_moe", "moe_intermediate_size": 1408,
  "norm_topk_prob": false, "num_attention_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
  "num_hidden_layers": 24, "num_key_value_heads": 16, "output_router_logits": false,
  "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001,
  "shared_expert_intermediate_size": 5632, "sliding_window": 32768, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "transformers_version": "4.39.0.dev0", "use_cache": true,
  "use_sliding_window": false, "vocab_size": 151936})";

constexpr const char* kQwen3235bA22b = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 151643, "decoder_sparse_step": 1, "eos_token_id": 151645, "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 12288, "max_position_embeddings": 40960, "max_window_layers": 94,
  "mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 1536,
  "norm_topk_prob": true, "num_attention_heads": 64, "num_experts": 128, "num_experts_per_tok": 8,
  "num_hidden_layers": 94, "num_key_value_heads": 4, "output_router_logits": false,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0,
  "router_aux_loss_coef": 0.001, "sliding_window": null, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true,
  "use_sliding_window": false, "vocab_size": 151936})";

constexpr const char* kQwen38b = R"({
  "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 12288,
  "max_position_embeddings": 40960, "max_window_layers": 36, "model_type": "qwen3",
  "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
  "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";

constexpr const char* kDeepseekV2Lite = R"({
  "architectures": ["DeepseekV2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "aux_loss_alpha": 0.001, "bos_token_id": 100000, "eos_token_id": 100001,
  "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 2048,
  "initializer_range": 0.02, "intermediate_size": 10944, "kv_lora_rank": 512,
  "max_position_embeddings": 163840, "model_type": "deepseek_v2", "moe_intermediate_size": 1408,
  "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 64, "n_shared_experts": 2,
  "norm_topk_prob": false, "num_attention_heads": 16, "num_experts_per_tok": 6,
  "num_hidden_layers": 27, "num_key_value_heads": 16, "pretraining_tp": 1, "q_lora_rank": null,
  "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
  "rope_scaling": {"beta_fast": 32, "factor": 40, "type": "yarn"}, "rope_theta": 10000,
  "routed_scaling_factor": 1.0, "scoring_func": "softmax", "seq_aux": true,
  "tie_word_embeddings": false, "topk_group": 1, "topk_method": "greedy",
  "torch_dtype": "bfloat16", "transformers_version": "4.33.1", "use_cache": true,
  "v_head_dim": 128, "vocab_size": 102400})";

constexpr const char* kDeepseekV3 = R"({
  "architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 0, "eos_token_id": 1, "ep_size": 1, "first_k_dense_replace": 3,
  "hidden_act": "silu", "hidden_size": 7168, "initializer_range": 0.02,
  "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
  "model_type": "deepseek_v3", "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8,
  "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true,
  "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61,
  "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536,
  "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "quantization_config": {"fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]},
  "rms_norm_eps": 1e-06, "rope_scaling": {"beta_fast": 32, "factor": 40, "type": "yarn"},
  "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
  "tie_word_embeddings": false, "topk_group": 4, "topk_method": "noaux_tc",
  "torch_dtype": "bfloat16", "transformers_version": "4.33.1", "use_cache": true,
  "v_head_dim": 128, "vocab_size": 129280})";

constexpr const char* kGptOss20b = R"({
  "architectures": ["GptOssForCausalLM"], "attention_bias": true, "attention_dropout": 0.0,
  "eos_token_id": 200002, "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu",
  "hidden_size": 2880, "initial_context_length": 4096, "initializer_range": 0.02,
  "intermediate_size": 2880, "max_position_embeddings": 131072, "model_type": "gpt_oss",
  "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24,
  "num_key_value_heads": 8, "num_local_experts": 32, "output_router_logits": false,
  "pad_token_id": 199999, "rms_norm_eps": 1e-05, "rope_theta": 150000,
  "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
  "tie_word_embeddings": false, "use_cache": true, "vocab_size": 201088})";

constexpr const char* kGrok1 = R"({
  "architectures": ["Grok1ModelForCausalLM"], "attn_output_multiplier": 0.08838834764831845,
  "bos_token_id": 1, "embedding_multiplier_scale": 78.38367176906169, "eos_token_id": 2,
  "hidden_act": "gelu", "hidden_size": 6144, "intermediate_size": 32768,
  "max_position_embeddings": 8192, "model_type": "grok-1", "num_attention_heads": 48,
  "num_experts_per_tok": 2, "num_hidden_layers": 64, "num_key_value_heads": 8,
  "num_local_experts": 8, "output_multiplier_scale": 0.5773502691896257, "pad_token_id": 0,
  "rms_norm_eps": 1e-05, "tie_word_embeddings": true, "vocab_size": 131072})";

constexpr const char* kNemotron4340b = R"({
  "architectures": ["NemotronForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 2, "eos_token_id": 3, "head_dim": 192, "hidden_act": "relu2",
  "hidden_size": 18432, "initializer_range": 0.0063, "intermediate_size": 73728,
  "max_position_embeddings": 4096, "mlp_bias": false, "model_type": "nemotron",
  "norm_eps": 1e-05, "num_attention_heads": 96, "num_hidden_layers": 96, "num_key_value_heads": 8,
  "partial_rotary_factor": 0.5, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 256000})";

constexpr const char* kMpt7b = R"({
  "architectures": ["MPTForCausalLM"],
  "attn_config": {"alibi": true, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0,
                  "attn_type": "multihead_attention", "attn_uses_sequence_id": false,
                  "clip_qkv": null, "prefix_lm": false, "qk_ln": false, "softmax_scale": null},
  "d_model": 4096, "emb_pdrop": 0, "embedding_fraction": 1.0, "expansion_ratio": 4,
  "init_device": "cpu", "learned_pos_emb": true, "logit_scale": null, "max_seq_len": 2048,
  "model_type": "mpt", "n_heads": 32, "n_layers": 32, "no_bias": true,
  "norm_type": "low_precision_layernorm", "resid_pdrop": 0, "torch_dtype": "bfloat16",
  "use_cache": false, "verbose": 0, "vocab_size": 50432})";

// As Hugging Face counts the checkpoints; that of DeepSeek-V3 without its multi-token layer.
TEST(ConfigExperts, CountWhatCheckpointsHold) {
  EXPECT_EQ(parameters(read_config(kMixtral8x7b).model), 46'702'792'704);
  EXPECT_EQ(parameters(read_config(kQwen15MoeA27b).model), 14'315'784'192);
  EXPECT_EQ(parameters(read_config(kQwen3235bA22b).model), 235'093'634'560);
  EXPECT_EQ(parameters(read_config(kQwen38b).model), 8'190'735'360);
  EXPECT_EQ(parameters(read_config(kDeepseekV2Lite).model), 15'706'484'224);
  EXPECT_EQ(parameters(read_config(kGptOss20b).model), 20'914'757'184);
  EXPECT_EQ(parameters(read_config(kMpt7b).model), 6'649'286'656);
  const std::string alone =
      changed("\"num_nextn_predict_layers\": 1", "\"num_nextn_predict_layers\": 0", kDeepseekV3);
  EXPECT_EQ(parameters(read_config(alone).model), 671'026'419'200);
}

// The presets have the same shapes, but for the names and the lengths of the sequences.
TEST(ConfigExperts, ReadTheSameShapesAsThePresets) {
  const std::pair<const char*, const char*> same[] = {{kMixtral8x7b, "mixtral-8x7b"},
                                                      {kQwen3235bA22b, "qwen3-235b-a22b"},
                                                      {kDeepseekV3, "deepseek-v3"},
                                                      {kGrok1, "grok-1"},
                                                      {kNemotron4340b, "nemotron4-340b"}};
  for (const auto& [text, name] : same) {
    Model ours = read_config(text).model;
    const Model theirs = *preset(name);
    ours.name = theirs.name;
    ours.sequence = theirs.sequence;
    if (ours.multi_token_layers == 1) ours.multi_token_layers.reset();  // the preset has none
    EXPECT_EQ(ours, theirs) << to_json(write_fields(ours), 0) << to_json(write_fields(theirs), 0);
  }
}

TEST(ConfigExperts, KeepNoSecrets) {
  for (const char* text :
       {kMixtral8x7b, kQwen15MoeA27b, kQwen3235bA22b, kQwen38b, kGrok1, kNemotron4340b, kMpt7b}) {
    EXPECT_THAT(read_config(text).notes, IsEmpty());
  }
  EXPECT_THAT(read_config(kDeepseekV2Lite).notes,
              ElementsAre(HasSubstr("rope_scaling of type \"yarn\" is ignored")));
  EXPECT_THAT(read_config(kGptOss20b).notes, IsEmpty());
  EXPECT_EQ(read_config(kGptOss20b).model.attention_window, 128);
  EXPECT_EQ(read_config(kGptOss20b).model.global_interval, 2);
  EXPECT_THAT(read_config(kDeepseekV3).notes,
              ElementsAre(HasSubstr("rope_scaling of type \"yarn\" is ignored"),
                          HasSubstr("quantization_config is ignored")));
}

TEST(ConfigExperts, TrainingIsRefusedByName) {
  EXPECT_EQ(departure(read_config(kMixtral8x7b).model), "");
  EXPECT_EQ(departure(read_config(kGptOss20b).model), "experts.bias = true");
  EXPECT_EQ(departure(read_config(kQwen38b).model), "");
  EXPECT_EQ(departure(read_config(kNemotron4340b).model), "activation = squared_relu");
  EXPECT_EQ(departure(read_config(kMpt7b).model), "positions = alibi");
  Model latent = read_config(kDeepseekV2Lite).model;
  latent.experts.reset();
  EXPECT_EQ(departure(latent), "latent_attention.kv_rank = 512");
  latent.latent_attention.reset();
  latent.multi_token_layers = 1;
  EXPECT_EQ(departure(latent), "multi_token_layers = 1");
}

// The first layers of a list are dense ones; a shared expert may be missing.
TEST(ConfigExperts, SomeLayersMayBeDense) {
  const Model all = read_config(kQwen3235bA22b).model;
  const Model two =
      read_config(changed("\"mlp_only_layers\": []", "\"mlp_only_layers\": [1, 0]", kQwen3235bA22b))
          .model;
  EXPECT_EQ(two.experts->dense_layers, 2);
  // In each of two: a router of 4096 x 128 and 128 experts of 3 x 4096 x 1536 go, an MLP of
  // 3 x 4096 x 12288 comes.
  EXPECT_EQ(parameters(all) - parameters(two),
            2 * (4096 * 128 + 128 * 3 * 4096 * 1536L - 3 * 4096 * 12288L));
  const Model lonely =
      read_config(changed("\"n_shared_experts\": 2", "\"n_shared_experts\": null", kDeepseekV2Lite))
          .model;
  EXPECT_EQ(lonely.experts->shared_ffn, 0);
}

// In each second layer, the second first.
TEST(ConfigExperts, SomeLayersMayHaveThem) {
  const Model all = read_config(kQwen15MoeA27b).model;
  const Model half = read_config(changed("\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2",
                                         kQwen15MoeA27b))
                         .model;
  EXPECT_EQ(half.experts->every, 2);
  const int64_t mixture = 2048 * 60 + 60 * 3 * 2048 * 1408L + 3 * 2048 * 5632L + 2048;
  EXPECT_EQ(parameters(all) - parameters(half), 12 * (mixture - 3 * 2048 * 5632L));
}

TEST(ConfigExperts, RefuseWhatContradictsItself) {
  EXPECT_THAT(config_complaint(changed("\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 9",
                                       kMixtral8x7b)),
              HasSubstr("num_experts_per_tok = 9: of only 8 experts"));
  EXPECT_THAT(
      config_complaint(changed("\"experts_per_token\": 4", "\"experts_per_token\": 5", kGptOss20b)),
      HasSubstr("experts_per_token = 5: contradicts num_experts_per_tok = 4"));
  EXPECT_THAT(
      config_complaint(changed("\"num_experts\": 60",
                               "\"num_experts\": 60, \"num_local_experts\": 8", kQwen15MoeA27b)),
      HasSubstr("num_local_experts = 8: contradicts num_experts = 60"));
  EXPECT_THAT(config_complaint(changed("\"first_k_dense_replace\": 1",
                                       "\"first_k_dense_replace\": 28", kDeepseekV2Lite)),
              HasSubstr("first_k_dense_replace = 28: more than num_hidden_layers = 27"));
  EXPECT_THAT(config_complaint(changed("\"v_head_dim\": 128",
                                       "\"v_head_dim\": 128, \"qk_head_dim\": 128", kDeepseekV3)),
              HasSubstr("qk_head_dim = 128: contradicts"));
  EXPECT_THAT(
      config_complaint(changed("\"alibi\": true", "\"alibi\": true, \"rope\": true", kMpt7b)),
      HasSubstr("config.json: attn_config: alibi = true: contradicts rope"));
  EXPECT_THAT(config_complaint(changed("Mixtral", "Qwen3Moe", kMixtral8x7b)),
              HasSubstr("contradicts architectures"));
}

TEST(ConfigExperts, RefuseWhatCannotBeCounted) {
  EXPECT_THAT(config_complaint(changed("\"mlp_only_layers\": []",
                                       "\"mlp_only_layers\": [0], \"decoder_sparse_step\": 2",
                                       changed("\"decoder_sparse_step\": 1,", "", kQwen3235bA22b))),
              HasSubstr("decoder_sparse_step = 2: cannot be combined with dense first layers"));
  EXPECT_THAT(
      config_complaint(changed("\"moe_layer_freq\": 1", "\"moe_layer_freq\": 2", kDeepseekV3)),
      HasSubstr("moe_layer_freq = 2"));
  EXPECT_THAT(config_complaint(
                  changed("\"mlp_only_layers\": []", "\"mlp_only_layers\": [3]", kQwen3235bA22b)),
              HasSubstr("mlp_only_layers = [3]: only the first layers"));
  EXPECT_THAT(config_complaint(
                  changed("\"mlp_only_layers\": []", "\"mlp_only_layers\": 3", kQwen3235bA22b)),
              HasSubstr("mlp_only_layers = 3"));
  EXPECT_THAT(config_complaint(changed("\"num_local_experts\": 8,", "", kMixtral8x7b)),
              HasSubstr("num_local_experts is missing"));
  EXPECT_THAT(config_complaint(changed("\"moe_intermediate_size\": 1536,", "", kQwen3235bA22b)),
              HasSubstr("moe_intermediate_size is missing"));
  EXPECT_THAT(config_complaint(
                  changed("\"num_local_experts\": 8", "\"num_local_experts\": 1000000", kGrok1)),
              HasSubstr("intermediate_size = 32768: times 1000000 experts"));
  EXPECT_THAT(config_complaint(changed("\"qk_ln\": false", "\"qk_ln\": true", kMpt7b)),
              HasSubstr("attn_config: qk_ln = true"));
  EXPECT_THAT(
      config_complaint(changed("\"expansion_ratio\": 4", "\"expansion_ratio\": -1", kMpt7b)),
      HasSubstr("expansion_ratio = -1"));
}

}  // namespace
}  // namespace tombolo::model
