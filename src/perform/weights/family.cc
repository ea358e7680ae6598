#include "perform/weights/family.h"

#include <initializer_list>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace tombolo::weights {
namespace {

using model::Activation;
using model::Model;
using model::Norm;
using model::Positions;

bool qkv_bias(const Model& m) { return m.qkv_bias.value_or(m.bias); }
bool output_bias(const Model& m) { return m.output_bias.value_or(m.bias); }
bool mlp_bias(const Model& m) { return m.mlp_bias.value_or(m.bias); }
bool has_usual_heads(const Model& m) { return m.head_size() * m.heads == m.hidden; }

bool is_gemma(Family family) { return family == Family::kGemma || family == Family::kGemma2; }

bool has_mixtures(Family family) {
  return family == Family::kMixtral || family == Family::kQwen3Moe;
}

// Of both families experts are alone in their layers; Mixtral's are in all of them.
std::string unlike_mixtures(Family family, const Model& m) {
  if (!m.experts) return has_mixtures(family) ? "it has no experts" : "";
  const model::Experts& e = *m.experts;
  if (!has_mixtures(family)) return fmt::format("experts.count = {}", e.count);
  if (e.shared_ffn > 0) return fmt::format("experts.shared_ffn = {}", e.shared_ffn);
  if (family == Family::kQwen3Moe) return "";
  if (e.dense_layers > 0) return fmt::format("experts.dense_layers = {}", e.dense_layers);
  if (e.every > 1) return fmt::format("experts.every = {}", e.every);
  if (e.ffn != m.ffn) return fmt::format("experts.ffn = {} and ffn = {}", e.ffn, m.ffn);
  return "";
}

// What some families alone have.
std::string unlike_llama(Family family, const Model& m) {
  const bool olmo2 = family == Family::kOlmo2, gemma2 = family == Family::kGemma2;
  struct Flag {
    const char* name;
    bool value, wanted;
  };
  for (const auto& [name, value, wanted] :
       {Flag{"qk_norm", m.qk_norm.value_or(false),
             family == Family::kQwen3 || family == Family::kQwen3Moe},
        Flag{"input_norms", m.input_norms.value_or(true), !olmo2},
        Flag{"output_norms", m.output_norms.value_or(false), olmo2 || gemma2},
        Flag{"whole_qk_norm", m.whole_qk_norm.value_or(false), olmo2},
        Flag{"unit_offset_norms", m.unit_offset_norms.value_or(false), is_gemma(family)},
        Flag{"scaled_embedding", m.scaled_embedding.value_or(false), is_gemma(family)}}) {
    if (value != wanted) return fmt::format("{} = {}", name, value);
  }
  if (m.nope_interval && family != Family::kSmolLm3) {
    return fmt::format("nope_interval = {}", *m.nope_interval);
  }
  const bool qwen = family == Family::kQwen2 || family == Family::kQwen3;
  const bool windows = gemma2 || qwen || has_mixtures(family) || family == Family::kMistral ||
                       family == Family::kPhi3;
  if (m.attention_window && !windows) {
    return fmt::format("attention_window = {}", *m.attention_window);
  }
  if (m.global_interval && !gemma2) return fmt::format("global_interval = {}", *m.global_interval);
  for (const auto& [name, number] : {std::pair("query_scalar", m.query_scalar),
                                     std::pair("attention_softcap", m.attention_softcap),
                                     std::pair("logit_softcap", m.logit_softcap)}) {
    if (number && !gemma2) return fmt::format("{} = {}", name, *number);
  }
  return "";
}

std::string gpt2_mismatch(const Model& m) {
  if (m.norm != Norm::kLayer) return "norm is not layernorm";
  if (m.activation != Activation::kGelu) return "activation is not gelu";
  if (m.positions != Positions::kLearned) return "positions are not learned";
  if (!qkv_bias(m) || !output_bias(m) || !mlp_bias(m)) return "it has no bias";
  if (m.kv_heads != m.heads) return fmt::format("kv_heads = {}", m.kv_heads);
  if (!has_usual_heads(m)) return fmt::format("head_dim = {}", m.head_size());
  return unlike_llama(Family::kGpt2, m);
}

// A part of a name of ours, and of theirs.
struct Word {
  std::string_view ours, theirs;
  bool transposed = false;
  int64_t part = 0, parts = 1;
};

constexpr Word kLlamaEnds[] = {
    {"embedding", "model.embed_tokens"}, {"norm", "model.norm"}, {"head", "lm_head"}};
constexpr Word kLlamaLayer[] = {{"attention_norm", "input_layernorm"},
                                {"attention.query", "self_attn.q_proj"},
                                {"attention.key", "self_attn.k_proj"},
                                {"attention.value", "self_attn.v_proj"},
                                {"attention.query_norm", "self_attn.q_norm"},
                                {"attention.key_norm", "self_attn.k_norm"},
                                {"attention.output", "self_attn.o_proj"},
                                {"mlp_norm", "post_attention_layernorm"},
                                {"mlp.gate", "mlp.gate_proj"},
                                {"mlp.up", "mlp.up_proj"},
                                {"mlp.down", "mlp.down_proj"}};
// Where they are called otherwise.
constexpr Word kPhi3Layer[] = {{"attention.query", "self_attn.qkv_proj", false, 0, 3},
                               {"attention.key", "self_attn.qkv_proj", false, 1, 3},
                               {"attention.value", "self_attn.qkv_proj", false, 2, 3},
                               {"mlp.gate", "mlp.gate_up_proj", false, 0, 2},
                               {"mlp.up", "mlp.gate_up_proj", false, 1, 2}};
constexpr Word kOlmo2Layer[] = {{"attention_output_norm", "post_attention_layernorm"},
                                {"mlp_output_norm", "post_feedforward_layernorm"}};
constexpr Word kGemma2Layer[] = {{"attention_output_norm", "post_attention_layernorm"},
                                 {"mlp_norm", "pre_feedforward_layernorm"},
                                 {"mlp_output_norm", "post_feedforward_layernorm"}};
constexpr Word kGpt2Ends[] = {{"embedding", "transformer.wte"},
                              {"positions", "transformer.wpe"},
                              {"norm", "transformer.ln_f"},
                              {"head", "lm_head"}};
constexpr Word kGpt2Layer[] = {{"attention_norm", "ln_1"},
                               {"attention.query", "attn.c_attn", true, 0, 3},
                               {"attention.key", "attn.c_attn", true, 1, 3},
                               {"attention.value", "attn.c_attn", true, 2, 3},
                               {"attention.output", "attn.c_proj", true},
                               {"mlp_norm", "ln_2"},
                               {"mlp.up", "mlp.c_fc", true},
                               {"mlp.down", "mlp.c_proj", true}};

// Of a layer with experts; of each expert behind its number.
constexpr Word kMixtralLayer[] = {{"mlp.router", "block_sparse_moe.gate"}};
constexpr Word kMixtralExpert[] = {{"gate", "w1"}, {"up", "w3"}, {"down", "w2"}};
constexpr Word kQwen3MoeLayer[] = {{"mlp.router", "mlp.gate"}, {"mlp.gate", "mlp.gate_proj"}};
constexpr Word kQwen3MoeExpert[] = {
    {"gate", "gate_proj"}, {"up", "up_proj"}, {"down", "down_proj"}};

// The first word for it.
Place place_in(std::initializer_list<std::span<const Word>> lists, std::string_view stem,
               std::string_view ending, const std::string& before) {
  for (const std::span<const Word> words : lists) {
    for (const Word& word : words) {
      if (word.ours != stem) continue;
      return {fmt::format("{}{}{}", before, word.theirs, ending),
              word.transposed && ending == ".weight", word.part, word.parts};
    }
  }
  CHECK(false, "{}{} is no name of a tensor", stem, ending);
}

// What a family calls otherwise than Llama.
std::span<const Word> own_words(Family family) {
  if (family == Family::kPhi3) return kPhi3Layer;
  if (family == Family::kOlmo2) return kOlmo2Layer;
  if (family == Family::kGemma2) return kGemma2Layer;
  if (family == Family::kMixtral) return kMixtralLayer;
  if (family == Family::kQwen3Moe) return kQwen3MoeLayer;
  return {};
}

}  // namespace

std::string family_names() {
  std::string out;
  for (const auto& [family, name] : enum_names(Family{})) {
    out += fmt::format("{}{}", out.empty() ? "" : ", ", name);
  }
  return out;
}

std::string mismatch(Family family, const Model& m) {
  if (std::string other = model::departure(m); !other.empty()) return other;
  if (std::string other = unlike_mixtures(family, m); !other.empty()) return other;
  if (family == Family::kGpt2) return gpt2_mismatch(m);
  if (m.norm != Norm::kRms) return "norm is not rmsnorm";
  const Activation activation = is_gemma(family) ? Activation::kGeglu : Activation::kSwiglu;
  if (m.activation != activation) {
    return fmt::format("activation is not {}", to_name(activation));
  }
  if (m.positions != Positions::kRotary) return "positions are not rope";
  if (std::string other = unlike_llama(family, m); !other.empty()) return other;
  if (mlp_bias(m) && family != Family::kLlama && family != Family::kSmolLm3) {
    return "the MLP has biases";
  }
  if (family == Family::kQwen2) {
    if (!qkv_bias(m) || output_bias(m)) return "biases are not those of query, key and value";
    if (!has_usual_heads(m)) return fmt::format("head_dim = {}", m.head_size());
    return "";
  }
  const bool never =
      family == Family::kMistral || family == Family::kMixtral || family == Family::kPhi3;
  if (never && (qkv_bias(m) || output_bias(m))) return "it has biases";
  if (qkv_bias(m) != output_bias(m)) return "some projections of the attention alone have biases";
  return "";
}

std::optional<Family> family_of(const Model& model) {
  for (const Family family : {Family::kLlama, Family::kQwen2, Family::kQwen3, Family::kOlmo2,
                              Family::kSmolLm3, Family::kGemma, Family::kGemma2, Family::kGpt2,
                              Family::kMistral, Family::kMixtral, Family::kQwen3Moe}) {
    if (mismatch(family, model).empty()) return family;
  }
  return std::nullopt;
}

std::vector<Tensor> tensors_of(const Model& m) {
  std::vector<Tensor> out;
  const auto norm = [&](const std::string& name, int64_t width) {
    out.push_back({name + ".weight", {width}});
    if (m.norm == Norm::kLayer) out.push_back({name + ".bias", {width}});
  };
  const auto matrix = [&](const std::string& name, int64_t rows, int64_t columns, bool bias) {
    out.push_back({name + ".weight", {rows, columns}});
    if (bias) out.push_back({name + ".bias", {rows}});
  };
  const auto mlp = [&](const std::string& name, int64_t width, bool bias) {
    if (m.gated_mlp()) matrix(name + "gate", width, m.hidden, bias);
    matrix(name + "up", width, m.hidden, bias);
    matrix(name + "down", m.hidden, width, bias);
  };
  const auto mixture = [&](const std::string& name) {
    const model::Experts& e = *m.experts;
    matrix(name + "router", e.count, m.hidden, false);
    for (int64_t i = 0; i < e.count; ++i) mlp(fmt::format("{}experts.{}.", name, i), e.ffn, false);
    if (e.shared_ffn > 0) mlp(name + "shared.", e.shared_ffn, false);
    if (e.shared_gate) matrix(name + "shared_gate", 1, m.hidden, false);
  };
  const int64_t wide = m.attention_width(), kv = m.kv_heads * m.head_size();
  const bool before = m.input_norms.value_or(true), after = m.output_norms.value_or(false);
  const bool whole = m.whole_qk_norm.value_or(false);
  matrix("embedding", m.vocabulary, m.hidden, false);
  if (m.positions == Positions::kLearned) {
    matrix("positions", m.positions_max.value_or(m.sequence), m.hidden, false);
  }
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string layer = fmt::format("layers.{}.", i);
    if (before) norm(layer + "attention_norm", m.hidden);
    matrix(layer + "attention.query", wide, m.hidden, qkv_bias(m));
    matrix(layer + "attention.key", kv, m.hidden, qkv_bias(m));
    matrix(layer + "attention.value", kv, m.hidden, qkv_bias(m));
    if (whole || m.qk_norm.value_or(false)) {
      norm(layer + "attention.query_norm", whole ? wide : m.head_size());
      norm(layer + "attention.key_norm", whole ? kv : m.head_size());
    }
    matrix(layer + "attention.output", m.hidden, wide, output_bias(m));
    if (after) norm(layer + "attention_output_norm", m.hidden);
    if (before) norm(layer + "mlp_norm", m.hidden);
    if (count_layers(m, {.first_layer = i, .layers = 1}).experts > 0) {
      mixture(layer + "mlp.");
    } else {
      mlp(layer + "mlp.", m.ffn, mlp_bias(m));
    }
    if (after) norm(layer + "mlp_output_norm", m.hidden);
  }
  norm("norm", m.hidden);
  if (!m.tied_embeddings) matrix("head", m.vocabulary, m.hidden, false);
  return out;
}

Place place_of(Family family, const std::string& name) {
  constexpr std::string_view kLayers = "layers.";
  std::string_view stem = name;
  const size_t dot = stem.rfind('.');
  CHECK(dot != std::string_view::npos, "{} is no name of a tensor", name);
  const std::string_view ending = stem.substr(dot);
  stem = stem.substr(0, dot);
  const bool gpt2 = family == Family::kGpt2;
  if (!stem.starts_with(kLayers)) {
    return place_in({gpt2 ? std::span<const Word>(kGpt2Ends) : kLlamaEnds}, stem, ending, "");
  }
  stem.remove_prefix(kLayers.size());
  const size_t after = stem.find('.');
  CHECK(after != std::string_view::npos, "{} is no name of a tensor", name);
  const std::string_view number = stem.substr(0, after);
  stem.remove_prefix(after + 1);
  if (gpt2) {
    return place_in({kGpt2Layer}, stem, ending, fmt::format("transformer.h.{}.", number));
  }
  const std::string layer = fmt::format("model.layers.{}.", number);
  constexpr std::string_view kExperts = "mlp.experts.";
  if (!stem.starts_with(kExperts))
    return place_in({own_words(family), kLlamaLayer}, stem, ending, layer);
  stem.remove_prefix(kExperts.size());
  const size_t end = stem.find('.');
  CHECK(end != std::string_view::npos && has_mixtures(family), "{} is no name of a tensor", name);
  const bool mixtral = family == Family::kMixtral;
  return place_in({mixtral ? std::span<const Word>(kMixtralExpert) : kQwen3MoeExpert},
                  stem.substr(end + 1), ending,
                  fmt::format("{}{}.experts.{}.", layer, mixtral ? "block_sparse_moe" : "mlp",
                              stem.substr(0, end)));
}

std::vector<int64_t> outputs_of_parts(const Place& place, const Model& m) {
  CHECK(place.part < place.parts && place.parts <= 3, "part {} of {} of {}", place.part,
        place.parts, place.name);
  if (place.parts == 1) return {};
  if (place.parts == 2) return {m.ffn, m.ffn};
  const int64_t kv = m.kv_heads * m.head_size();
  return {m.attention_width(), kv, kv};
}

std::vector<TheirTensor> their_tensors(Family family, const Model& model) {
  std::vector<TheirTensor> out;
  // The parts of one lie close together, but for its weights and biases in turns.
  const auto find = [&](const std::string& name) -> TheirTensor* {
    const size_t last = out.size() > 4 ? out.size() - 4 : 0;
    for (size_t i = out.size(); i > last; --i) {
      if (out[i - 1].name == name) return &out[i - 1];
    }
    return nullptr;
  };
  for (Tensor& tensor : tensors_of(model)) {
    const Place place = place_of(family, tensor.name);
    if (TheirTensor* begun = place.part > 0 ? find(place.name) : nullptr) {
      begun->parts.push_back(std::move(tensor));
      continue;
    }
    std::vector<int64_t> shape = tensor.shape;
    const std::vector<int64_t> parts = outputs_of_parts(place, model);
    if (!parts.empty()) shape[0] = std::accumulate(parts.begin(), parts.end(), int64_t{0});
    if (place.transposed) std::swap(shape[0], shape[1]);
    out.push_back({place.name, std::move(shape), {std::move(tensor)}, place.transposed});
  }
  return out;
}

std::string decoder_prefix(Family family) {
  return family == Family::kGpt2 ? "transformer." : "model.";
}

bool is_no_weight(Family family, const Model& model, const std::string& name) {
  if (model.tied_embeddings && name == "lm_head.weight") return true;
  if (family == Family::kGpt2) {
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
  }
  return name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace tombolo::weights
