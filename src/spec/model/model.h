// The network being trained: a decoder-only transformer, and what follows from its shape.
//
// Two families in one struct: Llama (RMSNorm, SwiGLU, rotary positions, grouped-query attention)
// and GPT-2 (LayerNorm with bias, GELU, learned positions, tied embeddings). Every choice is a
// field. Where published models depart from both, such as in a mixture of experts, an optional
// field says so; they can be predicted, and `train` refuses by name those that it does not compute.
//
// Counts of parameters are exact. FLOPs count a multiply-add as two, matrix products and attention
// scores only (as Korthikanti et al. 2022, appendix A, do); causal masking is not discounted.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/fields.h"
#include "base/result.h"
#include "base/units.h"

namespace tombolo::model {

enum class Norm { kRms, kLayer };
enum class Activation { kSwiglu, kGelu, kSquaredRelu, kGeglu };
enum class Positions { kRotary, kLearned, kAlibi };

constexpr auto enum_names(Norm) {
  return std::to_array<EnumName<Norm>>({{Norm::kRms, "rmsnorm"}, {Norm::kLayer, "layernorm"}});
}
constexpr auto enum_names(Activation) {
  return std::to_array<EnumName<Activation>>({{Activation::kSwiglu, "swiglu"},
                                              {Activation::kGelu, "gelu"},
                                              {Activation::kSquaredRelu, "squared_relu"},
                                              {Activation::kGeglu, "geglu"}});
}
constexpr auto enum_names(Positions) {
  return std::to_array<EnumName<Positions>>({{Positions::kRotary, "rope"},
                                             {Positions::kLearned, "learned"},
                                             {Positions::kAlibi, "alibi"}});
}

// A mixture of experts in place of the MLP. A router (hidden x count) sends each token to
// `per_token` of `count` experts.
struct Experts {
  int64_t count = 1;         // routed experts of a layer
  int64_t per_token = 1;     // of them, for each token
  int64_t ffn = 0;           // width of one of them; 0 in a file: that of the model
  int64_t shared_ffn = 0;    // width of the expert that every token visits besides; 0: none
  int64_t dense_layers = 0;  // this many first layers have an MLP of width Model::ffn instead
  int64_t every = 1;         // and so have all but every n-th layer (Llama 4)
  bool bias = false;         // in experts and router (GPT-OSS)
  bool score_bias = false;   // a number per expert, added to its score (DeepSeek-V3)
  bool shared_gate = false;  // a gate (hidden x 1) on the shared expert (Qwen2-MoE)

  bool operator==(const Experts&) const = default;
};

// Keys and values from a compressed vector per token (multi-head latent attention, DeepSeek-AI
// 2024, DeepSeek-V2, section 2.1). Biases of queries, keys and values are those of the compression.
struct LatentAttention {
  int64_t query_rank = 0;  // of the compressed query; 0: not compressed
  int64_t kv_rank = 512;   // of the compressed keys and values
  int64_t nope_dim = 128;  // per head, of queries and keys without positions
  int64_t rope_dim = 64;   // per head, with rotary positions; one key for all heads
  int64_t value_dim = 128;

  bool operator==(const LatentAttention&) const = default;
};

// Instead of keys and values of all tokens, each head has a state, which every token changes (the
// gated delta rule: Yang et al. 2024, Gated Delta Networks; Qwen3-Next). A short convolution over
// queries, keys and values comes before it, and a gate as wide as the values after it.
struct LinearAttention {
  int64_t key_heads = 16;    // of queries as well
  int64_t value_heads = 32;  // each with a state of key_dim x value_dim
  int64_t key_dim = 128;     // per head
  int64_t value_dim = 128;   // per head
  int64_t kernel = 4;        // tokens that the convolution sees
  int64_t every = 4;         // every n-th layer attends to all tokens instead

  int64_t key_width() const { return key_heads * key_dim; }
  int64_t value_width() const { return value_heads * value_dim; }
  // What the convolution runs over: queries, keys and values.
  int64_t mixed_width() const { return 2 * key_width() + value_width(); }
  bool operator==(const LinearAttention&) const = default;
};

// How Llama 3.1 stretches its rotary positions beyond the sequence that it was first trained on
// (Grattafiori et al. 2024, The Llama 3 Herd of Models, section 3.4.3; the formula is that of
// "rope_type": "llama3" in config.json). A pair that turns less than `low_frequency_factor` times
// within `first_sequence` tokens turns `factor` times slower, one that turns more than
// `high_frequency_factor` times stays, those between are mixed linearly.
struct RopeScaling {
  double factor = 8;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  int64_t first_sequence = 8192;

  bool operator==(const RopeScaling&) const = default;
};

struct Model {
  std::string name;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // 0 in a file: as many as heads
  int64_t ffn = 0;       // 0 in a file: 4 x hidden (GELU), 8/3 x hidden rounded up to 32 (SwiGLU)
  int64_t vocabulary = 0;
  int64_t sequence = 0;  // tokens per sample
  Norm norm = Norm::kRms;
  Activation activation = Activation::kSwiglu;
  Positions positions = Positions::kRotary;
  bool bias = false;             // in linear layers
  bool tied_embeddings = false;  // the head is the transposed token embedding
  double rope_theta = 10000;
  double norm_epsilon = 1e-5;
  // Departures from the two families; left out: as the fields above say.
  std::optional<RopeScaling> rope_scaling;
  std::optional<int64_t> head_dim;          // numbers per head, other than hidden / heads
  std::optional<bool> qkv_bias;             // in query, key and value, other than `bias`
  std::optional<bool> output_bias;          // in the projection after attention
  std::optional<bool> mlp_bias;             // in the MLP
  std::optional<bool> norm_bias;            // in LayerNorms; left out: true
  std::optional<int64_t> positions_max;     // learned positions, more than `sequence`
  std::optional<bool> parallel_residual;    // attention and MLP read the same input (GPT-NeoX)
  std::optional<bool> qk_norm;              // a norm of head_dim numbers on queries, one on keys
  std::optional<bool> attention_sinks;      // a number per head in its softmax (GPT-OSS)
  std::optional<bool> output_norms;         // norms after attention and MLP as well (Grok-1)
  std::optional<bool> input_norms;          // before them; left out: true (false: OLMo 2)
  std::optional<bool> shared_norm;          // one before both, whose residual is parallel (Phi)
  std::optional<bool> whole_qk_norm;        // a norm on queries of all heads, one on keys (OLMo 2)
  std::optional<bool> attention_gate;       // on attention's output, as wide (Qwen3-Next)
  std::optional<bool> head_bias;            // in the head (Phi)
  std::optional<int64_t> nope_interval;     // every n-th layer rotates nothing (SmolLM3)
  std::optional<double> rotary_share;       // of a head, the part that is rotated (GPT-NeoX)
  std::optional<bool> unit_offset_norms;    // RMSNorms multiply by 1 + weight (Gemma)
  std::optional<bool> scaled_embedding;     // the embedding times sqrt(hidden) (Gemma)
  std::optional<double> query_scalar;       // divides scores by its root, not head_dim's (Gemma 2)
  std::optional<double> attention_softcap;  // c: scores become c tanh(score / c) (Gemma 2)
  std::optional<double> logit_softcap;      // and so do logits
  std::optional<int64_t> attention_window;  // a token attends to this many, itself included
  std::optional<int64_t> global_interval;   // but in every n-th layer to all (Gemma 2)
  std::optional<double> window_rope_theta;  // in layers with a window (Gemma 3)
  std::optional<bool> embedding_norm;       // a norm after the embedding (BLOOM)
  std::optional<Experts> experts;
  std::optional<LatentAttention> latent_attention;
  std::optional<LinearAttention> linear_attention;
  std::optional<int64_t> multi_token_layers;  // more layers that predict further tokens (DeepSeek)

  int64_t head_size() const {
    CHECK(heads > 0, "{} numbers in {} heads", hidden, heads);
    return head_dim.value_or(hidden / heads);
  }
  int64_t attention_width() const { return heads * head_size(); }  // hidden, but for head_dim
  // Of queries with their gate.
  int64_t query_width() const {
    return (attention_gate.value_or(false) ? 2 : 1) * attention_width();
  }
  bool gated_mlp() const {
    return activation == Activation::kSwiglu || activation == Activation::kGeglu;
  }
  bool has_dense_layers() const {
    return !experts || experts->dense_layers > 0 || experts->every > 1;
  }
  // Whether there are layers that attend to fewer tokens than a sample has; and which these are.
  bool has_windows() const { return attention_window && *attention_window < sequence; }
  bool is_windowed(int64_t layer) const {
    return attention_window && (!global_interval || (layer + 1) % *global_interval != 0);
  }
  // The scores of a layer with a window, as a share of those of a layer without one.
  double window_share() const {
    if (!has_windows()) return 1;
    const double part = static_cast<double>(*attention_window) / static_cast<double>(sequence);
    return part * (2 - part);
  }
  // The kinds of layers repeat with this period, but for the first dense ones.
  int64_t layer_period() const {
    const int64_t period =
        std::lcm(experts ? experts->every : 1, linear_attention ? linear_attention->every : 1);
    return has_windows() ? std::lcm(period, global_interval.value_or(1)) : period;
  }
  // The share of all layers that attend to all tokens.
  double full_attention_share() const {
    return linear_attention ? 1 / static_cast<double>(linear_attention->every) : 1;
  }
  bool operator==(const Model&) const = default;
};

// The models known by name, and one of them. Shapes from the papers that name them; see presets.cc.
// Case, and any of "-_. ", make no difference: "LLAMA3.1_405B" is llama3.1-405b.
std::vector<std::string> preset_names();
Result<Model> preset(const std::string& name);

// The first departure that `m` has which `train` does not compute, as "experts.count = 8", or "".
std::string departure(const Model& m);

// A model as a file gives it, and what the file says about it that is not part of a Model.
struct ModelSection {
  Model model;
  std::vector<std::string> notes;  // one sentence each, for people
};

// Reads [model]: `preset = "..."` or `config = "config.json"` (config_json.h; relative to `file`)
// with any field overridden, or all fields inline. A vocabulary that is left out is that of bytes.
Result<ModelSection> read_model(const Value& table, const std::string& file,
                                const std::string& path);
// The keys of that section, for `tombolo help`.
std::vector<KeyEntry> model_keys();

// A contiguous piece of the model: what one pipeline stage holds.
struct Slice {
  int64_t first_layer = 0;
  int64_t layers = 0;
  bool embedding = false;  // token (and learned position) embedding
  bool head = false;       // final norm and logits, and the multi-token layers

  bool operator==(const Slice&) const = default;
};

// Stage number `stage` of `stages`, as even as possible. Where layers do not divide evenly,
// embedding and head count as a layer each if that makes them (Llama 3 and BLOOM are split so; with
// as many stages as layers and ends, the ends are stages of their own); else the first stages have
// one more.
Slice stage_slice(const Model& model, int64_t stages, int64_t stage);

// How many layers of a slice are of which kind. The multi-token layers are counted in `dense` or
// `experts` as well, whichever the last layer of the model is, and attend to all tokens.
struct LayerCounts {
  int64_t dense = 0;
  int64_t experts = 0;
  int64_t multi_token = 0;
  int64_t linear = 0;    // of the dense ones and of those with experts: with linear attention
  int64_t windowed = 0;  // of those: with a window shorter than the sequence

  bool operator==(const LayerCounts&) const = default;
};
LayerCounts count_layers(const Model& model, const Slice& slice);

// Matrices of one MLP or expert: up and down, and the gate of SwiGLU and GeGLU.
int64_t mlp_matrices(const Model& model);

// Trainable numbers of a slice. Tied embeddings count once, where the embedding is; a slice with a
// tied head but no embedding holds a copy, which counts there too. Multi-token layers share
// embedding and head with the model; a slice that has them but no embedding holds a copy of that.
int64_t parameters(const Model& model, const Slice& slice);
int64_t parameters(const Model& model);  // the whole model

// Of these, the routed experts: what expert parallelism divides. Router, shared expert and
// attention are on every rank.
int64_t expert_parameters(const Model& model, const Slice& slice);

// Parameters that one token meets: all but the experts that it is not sent to.
int64_t active_parameters(const Model& model);

// Matrix products of one forward pass over `samples` sequences. The backward pass takes twice that.
//   layer: 2 b s h (h_qkv + h_a) + 4 b s^2 h_a + 2 b s h f n;  n = 2 (GELU) or 3 (SwiGLU)
//   h_a = heads x head size, h unless head_dim is given;  h_qkv = h_a + 2 kv_heads x head size
//   head:  2 b s h V
// With experts, f is the width that a token meets, and the router adds 2 b s h count. Latent and
// linear attention, multi-token layers: docs/laws/parameters_and_flops.md.
Flops forward_flops(const Model& model, const Slice& slice, int64_t samples);

// Of these, attention scores and their products with the values: the terms in s^2. A window of w
// tokens leaves w (2 s - w) of s^2, as it leaves of the scores that causal attention has.
Flops score_flops(const Model& model, const Slice& slice, int64_t samples);

// Activations that must be kept from forward to backward for one microbatch of b samples, in
// bytes, with e bytes per element: Korthikanti et al. 2022, equation 1 with selective recomputation
// of the attention core (34 s b h at 2 bytes) or without (plus 5 a s^2 b at 2 bytes); with full
// recomputation only the input of each layer. Scaled by e / 2; the head adds its float32 logits.
// The 34 are 15 for attention, norms and residuals, 3 for input and mask of the MLP and 16 for what
// is inside it. With experts the 16 become 2 n times the width that a token meets over h, and each
// copy of a token that is sent to an expert adds 2; latent attention counts the queries, keys and
// values that it has. docs/laws/activation_memory.md has the terms.
enum class Recompute { kNone, kSelective, kFull };
constexpr auto enum_names(Recompute) {
  return std::to_array<EnumName<Recompute>>({{Recompute::kNone, "none"},
                                             {Recompute::kSelective, "selective"},
                                             {Recompute::kFull, "full"}});
}
Bytes activation_bytes(const Model& model, const Slice& slice, int64_t samples,
                       double element_bytes, Recompute recompute);

// What crosses a boundary between two stages per microbatch: s b h elements.
Bytes boundary_bytes(const Model& model, int64_t samples, double element_bytes);

template <class Archive>
void describe(Archive& a, Experts& e) {
  a.required("count", e.count, "routed experts of a layer");
  a.required("per_token", e.per_token, "routed experts that a token is sent to");
  a.optional("ffn", e.ffn, "width of an expert; left out: ffn");
  a.optional("shared_ffn", e.shared_ffn, "width of the shared expert; 0: there is none");
  a.optional("dense_layers", e.dense_layers, "first layers without experts");
  a.optional("every", e.every, "each n-th layer has experts");
  a.optional("bias", e.bias, "in the experts' linear layers");
  a.optional("score_bias", e.score_bias, "on the router's scores (DeepSeek-V3)");
  a.optional("shared_gate", e.shared_gate, "a gate on the shared expert");
  a.check(e.count >= 1 && e.count <= 1'000'000, "count", "must lie between 1 and 1000000");
  a.check(e.per_token >= 1 && e.per_token <= e.count, "per_token",
          fmt::format("must lie between 1 and count = {}", e.count));
  a.check(e.ffn >= 0 && e.ffn <= 10'000'000, "ffn", "must lie between 1 and 10000000");
  a.check(e.shared_ffn >= 0 && e.shared_ffn <= 10'000'000, "shared_ffn",
          "must lie between 0 and 10000000");
  a.check(e.dense_layers >= 0, "dense_layers", "must lie between 0 and the number of layers");
  a.check(e.every >= 1 && e.every <= 100'000, "every", "must lie between 1 and 100000");
  a.check(e.every == 1 || e.dense_layers == 0, "every", "cannot be combined with dense_layers",
          "one of the two");
  a.check(!e.shared_gate || e.shared_ffn > 0, "shared_gate", "without a shared expert",
          "the width of the shared expert as shared_ffn");
}

template <class Archive>
void describe(Archive& a, LatentAttention& l) {
  a.optional("query_rank", l.query_rank, "width of the compressed query; 0: not compressed");
  a.required("kv_rank", l.kv_rank, "width of the compressed keys and values");
  a.required("nope_dim", l.nope_dim, "per head, of queries and keys without positions");
  a.required("rope_dim", l.rope_dim, "per head, with rotary positions");
  a.required("value_dim", l.value_dim, "per head, of values");
  a.check(l.query_rank >= 0 && l.query_rank <= 1'000'000, "query_rank",
          "must lie between 0 and 1000000");
  for (const auto& [key, number] :
       {std::pair("kv_rank", l.kv_rank), std::pair("nope_dim", l.nope_dim),
        std::pair("rope_dim", l.rope_dim), std::pair("value_dim", l.value_dim)}) {
    a.check(number >= 1 && number <= 1'000'000, key, "must lie between 1 and 1000000");
  }
}

template <class Archive>
void describe(Archive& a, LinearAttention& l) {
  a.required("key_heads", l.key_heads, "heads of keys, and of queries");
  a.required("value_heads", l.value_heads, "heads of values, each with a state");
  a.required("key_dim", l.key_dim, "per head");
  a.required("value_dim", l.value_dim, "per head");
  a.optional("kernel", l.kernel, "tokens that the short convolution sees");
  a.optional("every", l.every, "each n-th layer attends to all tokens instead");
  for (const auto& [key, number] :
       {std::pair("key_heads", l.key_heads), std::pair("value_heads", l.value_heads),
        std::pair("kernel", l.kernel), std::pair("every", l.every)}) {
    a.check(number >= 1 && number <= 100'000, key, "must lie between 1 and 100000");
  }
  const auto fits = [](int64_t heads, int64_t dim) {
    return dim >= 1 && heads >= 1 && dim <= 1'000'000 / heads;
  };
  a.check(fits(l.key_heads, l.key_dim), "key_dim",
          "times key_heads must lie between 1 and 1000000");
  a.check(fits(l.value_heads, l.value_dim), "value_dim",
          "times value_heads must lie between 1 and 1000000");
  a.check(l.key_heads >= 1 && l.value_heads % l.key_heads == 0, "value_heads",
          fmt::format("must be a multiple of key_heads = {}", l.key_heads));
}

template <class Archive>
void describe(Archive& a, RopeScaling& r) {
  a.required("factor", r.factor, "how many times slower slow pairs turn");
  a.required("low_frequency_factor", r.low_frequency_factor,
             "pairs that turn less often within first_sequence are slowed");
  a.required("high_frequency_factor", r.high_frequency_factor,
             "pairs that turn more often stay as they are");
  a.required("first_sequence", r.first_sequence, "tokens of the sequence first trained on");
  a.check(r.factor >= 1 && r.factor <= 1e6, "factor", "must lie between 1 and 1000000");
  a.check(r.low_frequency_factor > 0 && r.low_frequency_factor < r.high_frequency_factor &&
              r.high_frequency_factor <= 1e6,
          "high_frequency_factor",
          "must be more than low_frequency_factor, which must be positive");
  a.check(r.first_sequence >= 1 && r.first_sequence <= 100'000'000, "first_sequence",
          "must lie between 1 and 100000000");
}

// For files: all fields, resolved.
template <class Archive>
void describe(Archive& a, Model& m) {
  a.optional("name", m.name, "of the model");
  a.required("layers", m.layers, "decoder layers");
  a.required("hidden", m.hidden, "width of the residual stream");
  a.required("heads", m.heads, "of queries");
  a.optional("kv_heads", m.kv_heads, "of keys and values; left out: as many as heads");
  a.optional(
      "ffn", m.ffn,
      "width of the MLP; left out: 4 x hidden, of a gated MLP 8/3 x hidden rounded up to 32");
  a.required("vocabulary", m.vocabulary, "tokens; left out: 256, the bytes");
  a.required("sequence", m.sequence, "tokens per sample");
  a.optional("norm", m.norm, "of layers");
  a.optional("activation", m.activation, "of the MLP; swiglu and geglu are gated");
  a.optional("positions", m.positions, "rotary, or a learned embedding");
  a.optional("bias", m.bias, "in linear layers");
  a.optional("tied_embeddings", m.tied_embeddings, "the head is the transposed token embedding");
  a.optional("rope_theta", m.rope_theta, "base of rotary positions");
  a.optional("norm_epsilon", m.norm_epsilon, "added to the variance in norms");
  a.optional("rope_scaling", m.rope_scaling,
             "rotary positions stretched as Llama 3.1 does; left out: not stretched");
  a.optional("head_dim", m.head_dim, "numbers per head; left out: hidden / heads");
  a.optional("qkv_bias", m.qkv_bias, "in query, key and value; left out: bias");
  a.optional("output_bias", m.output_bias, "in the projection after attention; left out: bias");
  a.optional("mlp_bias", m.mlp_bias, "in the MLP; left out: bias");
  a.optional("norm_bias", m.norm_bias, "in LayerNorms; left out: true");
  a.optional("positions_max", m.positions_max, "learned positions; left out: sequence");
  a.optional("parallel_residual", m.parallel_residual,
             "attention and MLP read the same input (GPT-NeoX); left out: false");
  a.optional("qk_norm", m.qk_norm,
             "a norm of head_dim numbers on queries, one on keys; left out: false");
  a.optional("attention_sinks", m.attention_sinks,
             "a number per head in its softmax (GPT-OSS); left out: false");
  a.optional("output_norms", m.output_norms,
             "norms after attention and MLP as well (Grok-1); left out: false");
  a.optional("input_norms", m.input_norms, "norms before attention and MLP; left out: true");
  a.optional("shared_norm", m.shared_norm,
             "one norm before both, of a parallel residual (Phi); left out: false");
  a.optional("whole_qk_norm", m.whole_qk_norm,
             "a norm on queries of all heads together, one on keys (OLMo 2); left out: false");
  a.optional("attention_gate", m.attention_gate,
             "a gate on what attention gives (Qwen3-Next); left out: false");
  a.optional("head_bias", m.head_bias, "in the head (Phi); left out: false");
  a.optional("nope_interval", m.nope_interval,
             "each n-th layer rotates nothing (SmolLM3); left out: all rotate");
  a.optional("rotary_share", m.rotary_share,
             "part of a head that is rotated (GPT-NeoX); left out: 1");
  a.optional("unit_offset_norms", m.unit_offset_norms,
             "norms multiply by 1 + their weight (Gemma); left out: false");
  a.optional("scaled_embedding", m.scaled_embedding,
             "embeddings are multiplied by the square root of hidden (Gemma); left out: false");
  a.optional("query_scalar", m.query_scalar,
             "scores are divided by its square root; left out: by that of head_dim");
  a.optional("attention_softcap", m.attention_softcap,
             "scores are bent to lie between minus and plus this; left out: they are not");
  a.optional("logit_softcap", m.logit_softcap,
             "logits are bent to lie between minus and plus this; left out: they are not");
  a.optional("attention_window", m.attention_window,
             "tokens that a token sees, itself among them; left out: all before it");
  a.optional("global_interval", m.global_interval,
             "each n-th layer sees all tokens; left out: every layer has the window");
  a.optional("window_rope_theta", m.window_rope_theta,
             "base of rotary positions in layers with a window; left out: rope_theta");
  a.optional("embedding_norm", m.embedding_norm,
             "a norm after the embedding (BLOOM); left out: false");
  a.optional("experts", m.experts, "left out: every layer has one MLP");
  a.optional("latent_attention", m.latent_attention,
             "keys and values from a compressed vector (DeepSeek-V2); left out: not compressed");
  a.optional("linear_attention", m.linear_attention,
             "a state instead of keys and values (Qwen3-Next); left out: attention to all tokens");
  a.optional("multi_token_layers", m.multi_token_layers,
             "further layers that predict further tokens (DeepSeek-V3); left out: 0");
  // Upper limits keep hostile numbers from overflowing the products below.
  const auto in_range = [&](const char* key, int64_t value, int64_t max) {
    a.check(value >= 1 && value <= max, key, fmt::format("must lie between 1 and {}", max));
  };
  in_range("layers", m.layers, 100'000);
  in_range("hidden", m.hidden, 1'000'000);
  in_range("heads", m.heads, 100'000);
  in_range("vocabulary", m.vocabulary, 100'000'000);
  in_range("sequence", m.sequence, 100'000'000);
  if (m.head_dim) {
    a.check(*m.head_dim >= 1 && *m.head_dim <= 1'000'000 && m.heads <= 100'000 &&
                m.heads * *m.head_dim <= 1'000'000,
            "head_dim", "times heads must lie between 1 and 1000000");
  } else if (m.heads > 0 && !m.latent_attention) {
    a.check(m.hidden % m.heads == 0, "heads", fmt::format("must divide hidden = {}", m.hidden),
            "another number of heads, or head_dim for heads of another width");
  }
  if (m.positions_max) {
    a.check(*m.positions_max >= m.sequence && *m.positions_max <= 100'000'000, "positions_max",
            fmt::format("must be at least sequence = {}", m.sequence));
  }
  a.check(
      m.kv_heads >= 0 && m.kv_heads <= m.heads && (m.kv_heads == 0 || m.heads % m.kv_heads == 0),
      "kv_heads", fmt::format("must divide heads = {}", m.heads));
  a.check(m.ffn >= 0 && m.ffn <= 10'000'000, "ffn", "must lie between 1 and 10000000");
  if (m.experts && a.ok()) {  // the widths are in range, so products are too
    a.check(m.experts->dense_layers <= m.layers, "experts",
            fmt::format("dense_layers = {} of {} layers", m.experts->dense_layers, m.layers));
    const int64_t mlp = m.ffn > 0 ? m.ffn : 4 * m.hidden;
    const int64_t width = m.experts->ffn > 0 ? m.experts->ffn : mlp;
    a.check(width <= 0 || m.experts->count <= 10'000'000 / width, "experts",
            "count times ffn must be at most 10000000");
  }
  if (m.latent_attention && a.ok()) {
    const LatentAttention& l = *m.latent_attention;
    a.check(m.heads <= 0 || std::max(l.nope_dim + l.rope_dim, l.value_dim) <= 1'000'000 / m.heads,
            "latent_attention",
            "heads times nope_dim + rope_dim, or times value_dim, must be at "
            "most 1000000");
    a.check(!m.head_dim && (m.kv_heads == 0 || m.kv_heads == m.heads), "latent_attention",
            "has its own widths and a key for each head", "neither head_dim nor kv_heads with it");
  }
  if (m.linear_attention) {
    a.check(!m.latent_attention, "linear_attention", "cannot be combined with latent_attention",
            "one of the two");
  }
  if (m.nope_interval) {
    a.check(*m.nope_interval >= 1 && *m.nope_interval <= 100'000, "nope_interval",
            "must lie between 1 and 100000");
  }
  a.check(m.rotary_share.value_or(1) > 0 && m.rotary_share.value_or(1) <= 1, "rotary_share",
          "must lie between 0 and 1");
  a.check(!m.unit_offset_norms.value_or(false) || m.norm == Norm::kRms, "unit_offset_norms",
          "is of norm = \"rmsnorm\"");
  for (const auto& [key, number] : {std::pair("query_scalar", m.query_scalar),
                                    std::pair("attention_softcap", m.attention_softcap),
                                    std::pair("logit_softcap", m.logit_softcap),
                                    std::pair("window_rope_theta", m.window_rope_theta)}) {
    a.check(number.value_or(1) > 0 && number.value_or(1) <= 1e12, key,
            "must be positive and at most 1e12");
  }
  if (m.attention_window) {
    in_range("attention_window", *m.attention_window, 100'000'000);
    a.check(!m.linear_attention, "attention_window", "cannot be combined with linear_attention",
            "one of the two");
  }
  if (m.global_interval) {
    in_range("global_interval", *m.global_interval, 100'000);
    a.check(m.attention_window.has_value(), "global_interval", "is of layers with a window",
            "attention_window with it");
  }
  a.check(m.input_norms.value_or(true) || m.output_norms.value_or(false), "input_norms",
          "without norms before attention and MLP there must be some after them",
          "output_norms = true with it");
  a.check(!m.shared_norm.value_or(false) || m.parallel_residual.value_or(false), "shared_norm",
          "is that of a parallel residual", "parallel_residual = true with it");
  a.check(!m.whole_qk_norm.value_or(false) || !m.qk_norm.value_or(false), "whole_qk_norm",
          "cannot be combined with qk_norm", "one of the two");
  a.check(!m.attention_gate.value_or(false) || !m.latent_attention, "attention_gate",
          "is not counted with latent attention", "one of the two");
  if (m.multi_token_layers) {
    a.check(*m.multi_token_layers >= 0 && *m.multi_token_layers <= 100, "multi_token_layers",
            "must lie between 0 and 100");
  }
  a.check(m.norm_epsilon > 0, "norm_epsilon", "must be positive");
  a.check(m.rope_theta > 0, "rope_theta", "must be positive");
}

template <class Archive>
void describe(Archive& a, Slice& slice) {
  a.required("first_layer", slice.first_layer, "number of the first layer, from 0");
  a.required("layers", slice.layers, "how many layers");
  a.required("embedding", slice.embedding, "the embedding is in it");
  a.required("head", slice.head, "final norm and logits are in it");
  a.check(slice.layers >= 0, "layers", "must not be negative");
  a.check(slice.first_layer >= 0, "first_layer", "must not be negative");
}

}  // namespace tombolo::model
