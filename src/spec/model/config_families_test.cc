// Families of config.json whose layers depart from Llama's and GPT-2's in norms, turns or kinds of
// attention. The files are those of the published checkpoints, without what has no bearing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/model/config_json.h"
#include "support/model_config.h"

namespace tombolo::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr const char* kGemma2b = R"({
  "architectures": ["GemmaForCausalLM"], "attention_bias": false, "head_dim": 256,
  "hidden_act": "gelu", "hidden_size": 2048, "intermediate_size": 16384,
  "max_position_embeddings": 8192, "model_type": "gemma", "num_attention_heads": 8,
  "num_hidden_layers": 18, "num_key_value_heads": 1, "rms_norm_eps": 1e-06, "rope_scaling": null,
  "rope_theta": 10000.0, "vocab_size": 256000})";

constexpr const char* kGemma7b = R"({
  "architectures": ["GemmaForCausalLM"], "attention_bias": false, "head_dim": 256,
  "hidden_act": "gelu_pytorch_tanh", "hidden_activation": null, "hidden_size": 3072,
  "intermediate_size": 24576, "max_position_embeddings": 8192, "model_type": "gemma",
  "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 16,
  "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "vocab_size": 256000})";

constexpr const char* kGemma2_2b = R"({
  "architectures": ["Gemma2ForCausalLM"], "attention_bias": false, "attn_logit_softcapping": 50.0,
  "cache_implementation": "hybrid", "final_logit_softcapping": 30.0, "head_dim": 256,
  "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
  "hidden_size": 2304, "intermediate_size": 9216, "max_position_embeddings": 8192,
  "model_type": "gemma2", "num_attention_heads": 8, "num_hidden_layers": 26,
  "num_key_value_heads": 4, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
  "rope_theta": 10000.0, "sliding_window": 4096, "vocab_size": 256000})";

constexpr const char* kGemma2_27b = R"({
  "architectures": ["Gemma2ForCausalLM"], "head_dim": 128, "hidden_act": "gelu_pytorch_tanh",
  "hidden_size": 4608, "intermediate_size": 36864, "max_position_embeddings": 8192,
  "model_type": "gemma2", "num_attention_heads": 32, "num_hidden_layers": 46,
  "num_key_value_heads": 16, "query_pre_attn_scalar": 144, "rms_norm_eps": 1e-06,
  "rope_theta": 10000.0, "sliding_window": 4096, "vocab_size": 256000})";

constexpr const char* kGemma3_1b = R"({
  "architectures": ["Gemma3ForCausalLM"], "attention_bias": false, "head_dim": 256,
  "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "intermediate_size": 6912,
  "max_position_embeddings": 32768, "model_type": "gemma3_text", "num_attention_heads": 4,
  "num_hidden_layers": 26, "num_key_value_heads": 1, "query_pre_attn_scalar": 256,
  "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_scaling": null,
  "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6,
  "vocab_size": 262144})";

// Sees: what its decoder leaves out is that of the class.
constexpr const char* kGemma3_4b = R"({
  "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999,
  "eoi_token_index": 256000, "image_token_index": 262144, "mm_tokens_per_image": 256,
  "model_type": "gemma3",
  "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                  "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                  "sliding_window": 1024},
  "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"}})";

constexpr const char* kPhi2 = R"({
  "architectures": ["PhiForCausalLM"], "embd_pdrop": 0.0, "hidden_act": "gelu_new",
  "hidden_size": 2560, "intermediate_size": 10240, "layer_norm_eps": 1e-05,
  "max_position_embeddings": 2048, "model_type": "phi", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 32, "partial_rotary_factor": 0.4,
  "qk_layernorm": false, "resid_pdrop": 0.1, "rope_scaling": null, "rope_theta": 10000.0,
  "tie_word_embeddings": false, "vocab_size": 51200})";

constexpr const char* kPhi3Mini4k = R"({
  "architectures": ["Phi3ForCausalLM"], "attention_bias": false, "embd_pdrop": 0.0,
  "hidden_act": "silu", "hidden_size": 3072, "intermediate_size": 8192,
  "max_position_embeddings": 4096, "model_type": "phi3", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 32, "original_max_position_embeddings": 4096,
  "resid_pdrop": 0.0, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0,
  "sliding_window": 2047, "tie_word_embeddings": false, "vocab_size": 32064})";

constexpr const char* kPhi4 = R"({
  "architectures": ["Phi3ForCausalLM"], "hidden_act": "silu", "hidden_size": 5120,
  "intermediate_size": 17920, "max_position_embeddings": 16384, "model_type": "phi3",
  "num_attention_heads": 40, "num_hidden_layers": 40, "num_key_value_heads": 10,
  "original_max_position_embeddings": 16384, "rms_norm_eps": 1e-05, "rope_scaling": null,
  "rope_theta": 250000, "sliding_window": null, "tie_word_embeddings": false,
  "vocab_size": 100352})";

constexpr const char* kQwen3Next80b = R"({
  "architectures": ["Qwen3NextForCausalLM"], "decoder_sparse_step": 1,
  "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu", "hidden_size": 2048,
  "intermediate_size": 5120, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
  "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
  "max_position_embeddings": 262144, "mlp_only_layers": [], "model_type": "qwen3_next",
  "moe_intermediate_size": 512, "norm_topk_prob": true, "num_attention_heads": 16,
  "num_experts": 512, "num_experts_per_tok": 10, "num_hidden_layers": 48,
  "num_key_value_heads": 2, "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-06,
  "rope_scaling": null, "rope_theta": 10000000, "router_aux_loss_coef": 0.001,
  "shared_expert_intermediate_size": 512, "tie_word_embeddings": false, "vocab_size": 151936})";

constexpr const char* kGlm45Air = R"({
  "architectures": ["Glm4MoeForCausalLM"], "attention_bias": true, "first_k_dense_replace": 1,
  "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 10944,
  "max_position_embeddings": 131072, "model_type": "glm4_moe", "moe_intermediate_size": 1408,
  "n_group": 1, "n_routed_experts": 128, "n_shared_experts": 1, "norm_topk_prob": true,
  "num_attention_heads": 96, "num_experts_per_tok": 8, "num_hidden_layers": 46,
  "num_key_value_heads": 8, "num_nextn_predict_layers": 1, "partial_rotary_factor": 0.5,
  "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 1000000,
  "routed_scaling_factor": 1.0, "tie_word_embeddings": false, "topk_group": 1,
  "use_qk_norm": false, "vocab_size": 151552})";

constexpr const char* kLlama4Maverick = R"({
  "architectures": ["Llama4ForConditionalGeneration"], "boi_token_index": 200080,
  "eoi_token_index": 200081, "image_token_index": 200092, "model_type": "llama4",
  "text_config": {"attention_bias": false, "attention_chunk_size": 8192, "head_dim": 128,
                  "hidden_act": "silu", "hidden_size": 5120, "interleave_moe_layer_step": 2,
                  "intermediate_size": 8192, "intermediate_size_mlp": 16384,
                  "max_position_embeddings": 1048576, "model_type": "llama4_text",
                  "no_rope_layers": [], "num_attention_heads": 40, "num_experts_per_tok": 1,
                  "num_hidden_layers": 48, "num_key_value_heads": 8, "num_local_experts": 128,
                  "output_router_logits": false, "rms_norm_eps": 1e-05, "rope_scaling": null,
                  "rope_theta": 500000.0, "router_aux_loss_coef": 0.001,
                  "router_jitter_noise": 0.0, "use_qk_norm": false, "vocab_size": 202048},
  "vision_config": {"hidden_size": 1408, "model_type": "llama4_vision_model"}})";

constexpr const char* kOlmo2_7b = R"({
  "architectures": ["Olmo2ForCausalLM"], "attention_bias": false, "hidden_act": "silu",
  "hidden_size": 4096, "intermediate_size": 11008, "max_position_embeddings": 4096,
  "model_type": "olmo2", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 32, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 500000,
  "tie_word_embeddings": false, "vocab_size": 100352})";

constexpr const char* kSmolLm3_3b = R"({
  "architectures": ["SmolLM3ForCausalLM"], "attention_bias": false, "hidden_act": "silu",
  "hidden_size": 2048, "intermediate_size": 11008, "max_position_embeddings": 65536,
  "max_window_layers": 28, "mlp_bias": false, "model_type": "smollm3",
  "no_rope_layer_interval": 4,
  "no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0,
                     1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0],
  "num_attention_heads": 16, "num_hidden_layers": 36, "num_key_value_heads": 4,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 5000000.0, "sliding_window": null,
  "use_sliding_window": false, "vocab_size": 128256})";

// "Safetensors, model size" of each checkpoint's page at huggingface.co, to the last parameter.
TEST(ConfigFamilies, CountWhatCheckpointsHold) {
  EXPECT_EQ(parameters(read_config(kGemma2b).model), 2'506'172'416);      // google/gemma-2b
  EXPECT_EQ(parameters(read_config(kGemma7b).model), 8'537'680'896);      // google/gemma-7b
  EXPECT_EQ(parameters(read_config(kGemma2_2b).model), 2'614'341'888);    // google/gemma-2-2b
  EXPECT_EQ(parameters(read_config(kGemma2_27b).model), 27'227'128'320);  // google/gemma-2-27b
  EXPECT_EQ(parameters(read_config(kGemma3_1b).model), 999'885'952);      // google/gemma-3-1b-pt
  EXPECT_EQ(parameters(read_config(kPhi2).model), 2'779'683'840);         // microsoft/phi-2
  EXPECT_EQ(parameters(read_config(kPhi3Mini4k).model), 3'821'079'552);   // Phi-3-mini-4k-instruct
  EXPECT_EQ(parameters(read_config(kPhi4).model), 14'659'507'200);        // microsoft/phi-4
  EXPECT_EQ(parameters(read_config(kOlmo2_7b).model), 7'298'617'344);     // OLMo-2-1124-7B
  EXPECT_EQ(parameters(read_config(kSmolLm3_3b).model), 3'075'098'624);   // SmolLM3-3B
}

// google/gemma-3-4b-pt, 4,300,079,472, less SigLIP (27 layers of 1152 with MLPs of 4304, 4096
// patches of 14 x 14), 416,866,032, and what joins both, 1152 x 2560 + 1152.
// meta-llama/Llama-4-Maverick-17B-128E, 401,583,781,376, and Llama-4-Scout-17B-16E,
// 108,641,793,536, less what sees and joins, 871,932,416.
TEST(ConfigFamilies, CountTheDecodersOfModelsThatSee) {
  EXPECT_EQ(parameters(read_config(kGemma3_4b).model),
            4'300'079'472 - 416'866'032 - (1152 * 2560 + 1152));
  EXPECT_EQ(parameters(read_config(kLlama4Maverick).model), 401'583'781'376 - 871'932'416);
  std::string scout = changed("\"interleave_moe_layer_step\": 2",
                              "\"interleave_moe_layer_step\": 1", kLlama4Maverick);
  scout = changed("\"num_local_experts\": 128", "\"num_local_experts\": 16", scout);
  EXPECT_EQ(parameters(read_config(scout).model), 108'641'793'536 - 871'932'416);
}

// Qwen3-Next-80B-A3B, 81,324,862,720, and GLM-4.5-Air, 110,468,824,832, hold one multi-token layer
// each, which Qwen's file does not speak of; GLM's with an embedding and a head of its own.
TEST(ConfigFamilies, CountMultiTokenLayersOfCheckpoints) {
  Model qwen = read_config(kQwen3Next80b).model;
  EXPECT_EQ(parameters(qwen), 79'674'391'296);
  qwen.multi_token_layers = 1;
  EXPECT_EQ(parameters(qwen), 81'324'862'720);
  const Model air = read_config(kGlm45Air).model;
  EXPECT_EQ(parameters(air), 110'468'824'832 - 2 * 151552 * 4096L);
  std::string large = changed("\"hidden_size\": 4096", "\"hidden_size\": 5120", kGlm45Air);
  large = changed("\"intermediate_size\": 10944", "\"intermediate_size\": 12288", large);
  large = changed("\"moe_intermediate_size\": 1408", "\"moe_intermediate_size\": 1536", large);
  large = changed("\"n_routed_experts\": 128", "\"n_routed_experts\": 160", large);
  large = changed("\"num_hidden_layers\": 46", "\"num_hidden_layers\": 92", large);
  large = changed("\"first_k_dense_replace\": 1", "\"first_k_dense_replace\": 3", large);
  large = changed("\"use_qk_norm\": false", "\"use_qk_norm\": true", large);
  EXPECT_EQ(parameters(read_config(large).model),  // GLM-4.5
            358'337'791'296 - 2 * 151552 * 5120L);
}

// What their names say a token meets: 17 B of Llama 4; without embedding and head 3 B of Qwen3-Next
// and 12 B of GLM-4.5-Air.
TEST(ConfigFamilies, ActiveParametersAreThoseOfTheirNames) {
  const auto active = [](const char* text) {
    Model m = read_config(text).model;
    m.multi_token_layers.reset();
    return static_cast<double>(active_parameters(m));
  };
  EXPECT_NEAR(active(kLlama4Maverick) / 17e9, 1, 0.02);
  EXPECT_NEAR((active(kQwen3Next80b) - 2 * 151936 * 2048.0) / 3e9, 1, 0.1);
  EXPECT_NEAR((active(kGlm45Air) - 2 * 151552 * 4096.0) / 12e9, 1, 0.02);
}

// Experts in each second layer: the first, third and so on have an MLP instead.
TEST(ConfigFamilies, LayersTakeTurns) {
  const Model m = read_config(kLlama4Maverick).model;
  EXPECT_EQ(m.experts->every, 2);
  EXPECT_EQ(m.ffn, 16384);
  EXPECT_EQ(count_layers(m, {0, 48, true, true}), (LayerCounts{.dense = 24, .experts = 24}));
  EXPECT_EQ(count_layers(m, {0, 1, true, false}), (LayerCounts{.dense = 1}));
  EXPECT_EQ(count_layers(m, {1, 2, false, false}), (LayerCounts{.dense = 1, .experts = 1}));
  EXPECT_EQ(count_layers(m, {3, 3, false, false}), (LayerCounts{.dense = 1, .experts = 2}));
  const Model next = read_config(kQwen3Next80b).model;
  EXPECT_EQ(count_layers(next, {0, 48, true, true}), (LayerCounts{.experts = 48, .linear = 36}));
  EXPECT_EQ(count_layers(next, {2, 2, false, false}), (LayerCounts{.experts = 2, .linear = 1}));
  // Slices hold what the whole does.
  for (const Model& model : {m, next}) {
    int64_t sum = 0;
    for (int64_t i = 0; i < 48; ++i) sum += parameters(model, {i, 1, i == 0, i == 47});
    EXPECT_EQ(sum, parameters(model));
  }
}

// A list of them goes before the number; one that is no such list is refused.
TEST(ConfigFamilies, ExpertsMayBeListed) {
  const auto listed = [](const char* list) {
    return changed("\"interleave_moe_layer_step\": 2",
                   fmt::format("\"interleave_moe_layer_step\": 2, \"moe_layers\": {}", list),
                   kLlama4Maverick);
  };
  EXPECT_EQ(read_config(listed("[15, 31, 47]")).model.experts->every, 16);
  for (const char* list : {"[0, 1, 2]", "[]", "[47, 15]", "3", "[-1]", "[\"a\"]"}) {
    EXPECT_THAT(config_complaint(listed(list)), HasSubstr("only every n-th layer")) << list;
  }
}

// A layer of linear attention by hand: h = 8, 2 key heads of 4, 4 value heads of 2, 3 tokens in the
// convolution. Queries and keys are 8 wide each, values and their gate 8; two numbers per head.
TEST(ConfigFamilies, LinearAttentionByHand) {
  Model m{.layers = 4, .hidden = 8, .heads = 2, .kv_heads = 1, .ffn = 16, .vocabulary = 32};
  m.sequence = 10;
  m.linear_attention = LinearAttention{2, 4, 4, 2, 3, 4};
  const int64_t projections = 8 * (8 + 8 + 8 + 8) + 8 * 2 * 4 + 8 * 8;
  const int64_t rest = 3 * (8 + 8 + 8) + 2 * 4 + 2;
  const int64_t mlp_and_norms = 3 * 8 * 16 + 2 * 8;
  EXPECT_EQ(parameters(m, {0, 1, false, false}), projections + rest + mlp_and_norms);
  EXPECT_EQ(parameters(m, {3, 1, false, false}), 8 * (8 + 8) + 8 * 8 + mlp_and_norms);
  // Products with the matrices, the convolution, and three with each head's state of 4 x 2.
  EXPECT_EQ(forward_flops(m, {0, 1, false, false}, 1).value,
            2.0 * 10 * (projections + 3 * 24 + 3 * 4 * 4 * 2 + 3 * 8 * 16));
  EXPECT_EQ(score_flops(m, {0, 3, false, false}, 1).value, 0);
  EXPECT_GT(score_flops(m, {3, 1, false, false}, 1).value, 0);
}

TEST(ConfigFamilies, GemmaScalesAndCaps) {
  const Model first = read_config(kGemma2b).model;
  EXPECT_EQ(first.activation, Activation::kGeglu);
  EXPECT_EQ(first.unit_offset_norms, true);
  EXPECT_EQ(first.scaled_embedding, true);
  EXPECT_EQ(first.head_size(), 256);
  EXPECT_FALSE(first.query_scalar || first.attention_softcap || first.logit_softcap);
  const Model second = read_config(kGemma2_2b).model;
  EXPECT_EQ(second.query_scalar, std::nullopt);  // that of its heads
  EXPECT_EQ(second.attention_softcap, 50);
  EXPECT_EQ(second.logit_softcap, 30);
  EXPECT_EQ(second.output_norms, true);
  const Model large = read_config(kGemma2_27b).model;
  EXPECT_EQ(large.query_scalar, 144);
  EXPECT_EQ(large.attention_softcap, 50);  // of its class
  const std::string none =
      changed("\"attn_logit_softcapping\": 50.0", "\"attn_logit_softcapping\": null", kGemma2_2b);
  EXPECT_EQ(read_config(none).model.attention_softcap, std::nullopt);
  const Model third = read_config(kGemma3_1b).model;
  EXPECT_EQ(third.window_rope_theta, 10000);
  EXPECT_EQ(third.rope_theta, 1000000);
  EXPECT_FALSE(third.attention_softcap);
  EXPECT_EQ(departure(third), "window_rope_theta = 10000");
}

// Which layers look back how far: a class's rule, or a list.
TEST(ConfigFamilies, WindowsOfAttention) {
  const auto windows = [](const std::string& text) {
    const Model m = read_config(text).model;
    return std::pair(m.attention_window.value_or(0), m.global_interval.value_or(0));
  };
  EXPECT_EQ(windows(kGemma2_2b), std::pair(int64_t{4096}, int64_t{2}));
  EXPECT_EQ(windows(kGemma3_1b), std::pair(int64_t{512}, int64_t{6}));
  EXPECT_EQ(windows(kGemma3_4b), std::pair(int64_t{1024}, int64_t{6}));
  EXPECT_EQ(windows(kPhi3Mini4k), std::pair(int64_t{2047}, int64_t{0}));
  for (const char* text : {kGemma2b, kPhi4, kOlmo2_7b, kSmolLm3_3b, kLlama4Maverick}) {
    EXPECT_EQ(windows(text), std::pair(int64_t{0}, int64_t{0}));
  }
  const auto of_four = [&](const char* types) {
    const std::string four =
        changed("\"num_hidden_layers\": 26", "\"num_hidden_layers\": 4", kGemma2_2b);
    return changed("\"sliding_window\"",
                   fmt::format("\"layer_types\": {}, \"sliding_window\"", types), four);
  };
  const std::string s = "\"sliding_attention\"", f = "\"full_attention\"";
  const auto list = [&](const std::string& a, const std::string& b, const std::string& c,
                        const std::string& d) {
    return of_four(fmt::format("[{}, {}, {}, {}]", a, b, c, d).c_str());
  };
  EXPECT_EQ(windows(list(s, s, s, f)), std::pair(int64_t{4096}, int64_t{4}));
  EXPECT_EQ(windows(list(s, s, s, s)), std::pair(int64_t{4096}, int64_t{0}));
  EXPECT_EQ(windows(list(f, f, f, f)), std::pair(int64_t{0}, int64_t{0}));
  EXPECT_EQ(windows(list(f, s, s, f)), std::pair(int64_t{0}, int64_t{0}));
  EXPECT_THAT(read_config(list(f, s, s, f)).notes,
              ElementsAre(HasSubstr("sliding_window is ignored")));
  const std::string none =
      changed("\"sliding_window\": 4096", "\"sliding_window\": null", kGemma2_2b);
  EXPECT_EQ(windows(none), std::pair(int64_t{0}, int64_t{0}));
}

// Gemma 2 of 26 layers at 8192 tokens: half of them see the last 4096, which are 1/2 (2 - 1/2) =
// 3/4 of all scores. A tenth layer is one of those that see all.
TEST(ConfigFamilies, WindowsTakeFlops) {
  const Model m = read_config(kGemma2_2b).model;
  Model whole = m;
  whole.attention_window.reset();
  whole.global_interval.reset();
  const Slice all{0, 26, true, true};
  const double one = 4.0 * 8192 * 8192 * 8 * 256;
  EXPECT_EQ(score_flops(whole, all, 1).value, 26 * one);
  EXPECT_EQ(score_flops(m, all, 1).value, 13 * one + 13 * 0.75 * one);
  EXPECT_EQ(score_flops(m, {9, 1, false, false}, 1).value, one);
  EXPECT_EQ(score_flops(m, {8, 2, false, false}, 2).value, 2 * 1.75 * one);
  EXPECT_DOUBLE_EQ((forward_flops(whole, all, 1) - forward_flops(m, all, 1)).value,
                   13 * 0.25 * one);
  EXPECT_EQ(count_layers(m, all), (LayerCounts{.dense = 26, .windowed = 13}));
  EXPECT_EQ(m.layer_period(), 2);
  Model short_one = m;
  short_one.sequence = 4096;
  EXPECT_EQ(short_one.layer_period(), 1);
  EXPECT_EQ(count_layers(short_one, all), (LayerCounts{.dense = 26}));
  EXPECT_EQ(parameters(whole), parameters(m));
}

TEST(ConfigFamilies, SayWhatTheyIgnore) {
  for (const char* text : {kGemma2b, kGemma7b, kGemma2_2b, kGemma2_27b, kGemma3_1b, kPhi3Mini4k,
                           kPhi4, kOlmo2_7b, kSmolLm3_3b}) {
    EXPECT_THAT(read_config(text).notes, IsEmpty());
  }
  EXPECT_THAT(read_config(kGemma3_4b).notes,
              UnorderedElementsAre(HasSubstr("rope_scaling of type \"linear\" is ignored"),
                                   HasSubstr("vision_config is ignored")));
  EXPECT_THAT(read_config(kLlama4Maverick).notes,
              UnorderedElementsAre(HasSubstr("attention_chunk_size is ignored"),
                                   HasSubstr("vision_config is ignored")));
  for (const auto& [text, share] :
       {std::pair(kPhi2, 0.4), std::pair(kQwen3Next80b, 0.25), std::pair(kGlm45Air, 0.5)}) {
    EXPECT_THAT(read_config(text).notes, IsEmpty());
    EXPECT_EQ(read_config(text).model.rotary_share, share);
  }
}

// Those that are counted and not computed are refused by name.
TEST(ConfigFamilies, TrainingIsRefusedByName) {
  EXPECT_EQ(departure(read_config(kGemma3_4b).model), "window_rope_theta = 10000");
  EXPECT_EQ(departure(read_config(kPhi2).model), "parallel_residual = true");
  EXPECT_EQ(departure(read_config(kQwen3Next80b).model), "linear_attention.every = 4");
  EXPECT_EQ(departure(read_config(kGlm45Air).model), "experts.score_bias = true");
  EXPECT_EQ(departure(read_config(kLlama4Maverick).model), "experts.per_token = 1");
  for (const char* text : {kGemma2b, kGemma2_2b, kOlmo2_7b, kSmolLm3_3b, kPhi3Mini4k, kPhi4}) {
    EXPECT_EQ(departure(read_config(text).model), "");
  }
  const std::string part = changed(
      "\"rope_theta\": 250000", "\"rope_theta\": 250000, \"partial_rotary_factor\": 0.75", kPhi4);
  EXPECT_EQ(departure(read_config(part).model), "rotary_share = 0.75");
  Model linear = read_config(kQwen3Next80b).model;
  linear.experts.reset();
  EXPECT_EQ(departure(linear), "linear_attention.every = 4");
}

TEST(ConfigFamilies, RefuseWhatTheyCannotCount) {
  EXPECT_THAT(config_complaint(changed("\"qk_layernorm\": false", "\"qk_layernorm\": true", kPhi2)),
              HasSubstr("qk_layernorm = true"));
  EXPECT_THAT(config_complaint(changed("[1, 1, 1, 0, ", "[1, 1, 0, 1, ", kSmolLm3_3b)),
              HasSubstr("do not come at even distances"));
  EXPECT_THAT(config_complaint(changed("\"linear_num_value_heads\": 32",
                                       "\"linear_num_value_heads\": 24", kQwen3Next80b)),
              HasSubstr("no multiple of linear_num_key_heads = 16"));
  EXPECT_THAT(config_complaint(changed("\"mlp_only_layers\": []",
                                       "\"mlp_only_layers\": [], \"layer_types\": "
                                       "[\"full_attention\", \"linear_attention\"]",
                                       kQwen3Next80b)),
              HasSubstr("layer_types"));
  EXPECT_THAT(config_complaint("{\"model_type\": \"gemma3\"}"),
              HasSubstr("config.json: text_config is missing"));
  EXPECT_THAT(config_complaint("{\"model_type\": \"llama4\", \"text_config\": 3}"),
              HasSubstr("text_config = 3: wanted a table"));
  EXPECT_THAT(config_complaint(changed("\"intermediate_size\": 10240, ", "", kGemma3_4b)),
              HasSubstr("config.json: text_config: intermediate_size is missing"));
  EXPECT_THAT(config_complaint(changed("Gemma3For", "Gemma2For", kGemma3_1b)),
              HasSubstr("contradicts architectures"));
}

}  // namespace
}  // namespace tombolo::model
