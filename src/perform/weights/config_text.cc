#include "perform/weights/config_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json.h"
#include "spec/model/config_json.h"

namespace tombolo::weights {
namespace {

using model::Model;

const Value* given(const Value& config, std::string_view key) {
  const Value* found = config.find(key);
  return found && !found->is_null() ? found : nullptr;
}

std::string text_at(const Value& config, std::string_view key) {
  const Value* found = given(config, key);
  const std::string* text = found ? found->get<std::string>() : nullptr;
  return text ? *text : "";
}

bool flag_at(const Value& config, std::string_view key, bool otherwise) {
  const Value* found = given(config, key);
  const bool* flag = found ? found->get<bool>() : nullptr;
  return flag ? *flag : otherwise;
}

Result<Family> family_in(const Value& config, const std::string& file) {
  std::string type = text_at(config, "model_type");
  if (type.empty()) type = given(config, "n_embd") ? "gpt2" : "llama";
  if (const auto family = from_name<Family>(type)) return *family;
  return unusable(
      fmt::format("{}: model_type = \"{}\": weights of this family cannot be read", file, type),
      "one of " + family_names());
}

tl::unexpected<Error> not_computed(const std::string& file, std::string_view key,
                                   const Value& value, std::string hint = {}) {
  return unusable(
      fmt::format("{}: {} = {}: this is not computed here", file, key, to_json(value, -1)),
      std::move(hint));
}

// One of these texts, or nothing at all.
Status check_text(const Value& config, const std::string& file, const char* key,
                  std::initializer_list<std::string_view> known) {
  const Value* value = given(config, key);
  if (!value) return {};
  const std::string* text = value->get<std::string>();
  if (text && std::ranges::find(known, *text) != known.end()) return {};
  return not_computed(file, key, *value, fmt::format("\"{}\"", *known.begin()));
}

Status check_rope(const Value& config, const std::string& file) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Value* scaling = given(config, key);
    if (!scaling) continue;
    std::string type = text_at(*scaling, "rope_type");
    if (type.empty()) type = text_at(*scaling, "type");
    // Where it says no more than theta, nothing is scaled.
    const bool plain = type == "default" || (type.empty() && !given(*scaling, "factor"));
    if (type != "llama3" && !plain) {
      return not_computed(file, key, *scaling, "rope_type \"llama3\" or \"default\"");
    }
  }
  const Value* part = given(config, "partial_rotary_factor");
  if (part && *part != Value(1.0) && *part != Value(1)) {
    return not_computed(file, "partial_rotary_factor", *part);
  }
  return {};
}

// Where there is no hidden_activation, hidden_act is not read.
Status check_gemma(const Value& config, const std::string& file) {
  TRY(check_text(config, file, "hidden_activation", {"gelu_pytorch_tanh", "gelu_new"}));
  if (!flag_at(config, "use_bidirectional_attention", false)) return {};
  return not_computed(file, "use_bidirectional_attention", Value(true));
}

Status check_computed(const Value& config, Family family, const std::string& file) {
  if (const Value* quantized = given(config, "quantization_config")) {
    return not_computed(file, "quantization_config", *quantized, "weights that are not quantized");
  }
  if (family == Family::kGemma || family == Family::kGemma2) {
    TRY(check_gemma(config, file));
    return check_rope(config, file);
  }
  if (family != Family::kGpt2) {
    TRY(check_text(config, file, "hidden_act", {"silu", "swish"}));
    // Where it is left out, weights of experts stay those of a softmax over all of them.
    if (family == Family::kQwen3Moe && !flag_at(config, "norm_topk_prob", false))
      return not_computed(file, "norm_topk_prob", Value(false), "norm_topk_prob = true");
    return check_rope(config, file);
  }
  TRY(check_text(config, file, "activation_function", {"gelu_new", "gelu_pytorch_tanh"}));
  for (const auto& [key, wanted] :
       {std::pair("scale_attn_weights", true), {"scale_attn_by_inverse_layer_idx", false}}) {
    if (flag_at(config, key, wanted) != wanted) return not_computed(file, key, Value(!wanted));
  }
  return {};
}

// How far a token looks back in layers that no field of a model names: at uneven distances, or the
// last ones. Nothing where there are none such.
std::optional<int64_t> window_of(const Config& config) {
  if (config.model.attention_window) return std::nullopt;
  const Value* value = given(config.value, "sliding_window");
  const int64_t* window = value ? value->get<int64_t>() : nullptr;
  if (!window) return std::nullopt;
  bool used = flag_at(config.value, "use_sliding_window", false);
  const Value* types = given(config.value, "layer_types");
  if (const Value::Array* list = types ? types->get<Value::Array>() : nullptr) {
    used = std::ranges::find(*list, Value("sliding_attention")) != list->end();
  }
  return used ? std::optional(*window) : std::nullopt;
}

// The fields that say what is computed, each with what holds where it is left out.
Value resolved(Model m) {
  m.name.clear();
  const bool learned = m.positions == model::Positions::kLearned;
  m.positions_max = learned ? std::optional(m.positions_max.value_or(m.sequence)) : std::nullopt;
  m.sequence = 1;
  m.head_dim = m.head_size();
  m.qkv_bias = m.qkv_bias.value_or(m.bias);
  m.output_bias = m.output_bias.value_or(m.bias);
  m.mlp_bias = m.mlp_bias.value_or(m.bias);
  m.bias = false;
  m.norm_bias = m.norm_bias.value_or(true);
  m.qk_norm = m.qk_norm.value_or(false);
  m.parallel_residual = m.parallel_residual.value_or(false);
  m.attention_sinks = m.attention_sinks.value_or(false);
  m.output_norms = m.output_norms.value_or(false);
  m.input_norms = m.input_norms.value_or(true);
  m.shared_norm = m.shared_norm.value_or(false);
  m.whole_qk_norm = m.whole_qk_norm.value_or(false);
  m.attention_gate = m.attention_gate.value_or(false);
  m.head_bias = m.head_bias.value_or(false);
  m.rotary_share = m.rotary_share.value_or(1);
  m.unit_offset_norms = m.unit_offset_norms.value_or(false);
  m.scaled_embedding = m.scaled_embedding.value_or(false);
  m.query_scalar = m.query_scalar.value_or(static_cast<double>(m.head_size()));
  m.embedding_norm = m.embedding_norm.value_or(false);
  m.multi_token_layers = m.multi_token_layers.value_or(0);
  if (m.positions != model::Positions::kRotary) {
    m.rope_theta = 1;
    m.rope_scaling.reset();
  }
  return write_fields(m);
}

std::string shown(const Value* value) { return value ? to_json(*value, -1) : "nothing"; }

Value number_or_null(const auto& number) { return number ? Value(*number) : Value(); }

void add_gemma2_fields(const Model& m, Value::Table& out) {
  const double scalar = m.query_scalar.value_or(static_cast<double>(m.head_size()));
  const auto whole = static_cast<int64_t>(scalar);  // as transformers wants it
  out.emplace_back("query_pre_attn_scalar",
                   static_cast<double>(whole) == scalar ? Value(whole) : Value(scalar));
  out.emplace_back("attn_logit_softcapping", number_or_null(m.attention_softcap));
  out.emplace_back("final_logit_softcapping", number_or_null(m.logit_softcap));
  out.emplace_back("sliding_window", number_or_null(m.attention_window));
  Value::Array types;
  for (int64_t layer = 0; layer < m.layers; ++layer) {
    types.emplace_back(m.is_windowed(layer) ? "sliding_attention" : "full_attention");
  }
  out.emplace_back("layer_types", std::move(types));
}

void add_expert_fields(Family family, const model::Experts& e, Value::Table& out) {
  out.emplace_back("num_experts_per_tok", e.per_token);
  if (family == Family::kMixtral) {
    out.emplace_back("num_local_experts", e.count);
    return;
  }
  out.emplace_back("num_experts", e.count);
  out.emplace_back("moe_intermediate_size", e.ffn);
  out.emplace_back("norm_topk_prob", true);
  out.emplace_back("decoder_sparse_step", e.every);
  Value::Array dense;
  for (int64_t layer = 0; layer < e.dense_layers; ++layer) dense.emplace_back(layer);
  out.emplace_back("mlp_only_layers", std::move(dense));
}

Value::Table llama_fields(Family family, const Model& m) {
  Value::Table out{{"hidden_act", "silu"},           {"hidden_size", m.hidden},
                   {"intermediate_size", m.ffn},     {"num_hidden_layers", m.layers},
                   {"num_attention_heads", m.heads}, {"num_key_value_heads", m.kv_heads},
                   {"head_dim", m.head_size()},      {"max_position_embeddings", m.sequence},
                   {"rms_norm_eps", m.norm_epsilon}, {"rope_theta", m.rope_theta},
                   {"rope_scaling", Value()},        {"tie_word_embeddings", m.tied_embeddings},
                   {"vocab_size", m.vocabulary}};
  if (m.rope_scaling) {
    const model::RopeScaling& r = *m.rope_scaling;
    for (auto& [key, value] : out) {
      if (key != "rope_scaling") continue;
      value = Value::Table{{"rope_type", "llama3"},
                           {"factor", r.factor},
                           {"low_freq_factor", r.low_frequency_factor},
                           {"high_freq_factor", r.high_frequency_factor},
                           {"original_max_position_embeddings", r.first_sequence}};
    }
  }
  const bool biases = m.qkv_bias.value_or(m.bias);
  if (family == Family::kPhi3 || family == Family::kSmolLm3) {
    out.emplace_back("pad_token_id", Value());  // theirs may lie outside of the vocabulary
  }
  if (family == Family::kSmolLm3) {
    out.emplace_back("no_rope_layer_interval", m.nope_interval.value_or(m.layers + 1));
  }
  if (family == Family::kGemma || family == Family::kGemma2) {
    // Their classes read no hidden_act.
    out.erase(out.begin());
    out.emplace_back("hidden_activation", "gelu_pytorch_tanh");
  }
  if (family == Family::kGemma2) add_gemma2_fields(m, out);
  if (family == Family::kOlmo2 || family == Family::kGemma || family == Family::kGemma2) {
    out.emplace_back("attention_bias", biases);
  } else if (family == Family::kLlama || family == Family::kSmolLm3) {
    out.emplace_back("attention_bias", biases);
    out.emplace_back("mlp_bias", m.mlp_bias.value_or(m.bias));
  } else {
    const bool qwen3 = family == Family::kQwen3 || family == Family::kQwen3Moe;
    if (qwen3) out.emplace_back("attention_bias", biases);
    const bool has_switch = family == Family::kQwen2 || qwen3;
    if (has_switch) out.emplace_back("use_sliding_window", m.attention_window.has_value());
    if (has_switch && m.attention_window) out.emplace_back("max_window_layers", 0);
    out.emplace_back("sliding_window", number_or_null(m.attention_window));
  }
  if (m.experts) add_expert_fields(family, *m.experts, out);
  return out;
}

Value::Table gpt2_fields(const Model& m) {
  return {{"activation_function", "gelu_new"},
          {"n_layer", m.layers},
          {"n_embd", m.hidden},
          {"n_head", m.heads},
          {"n_inner", m.ffn},
          {"n_positions", m.positions_max.value_or(m.sequence)},
          {"layer_norm_epsilon", m.norm_epsilon},
          {"tie_word_embeddings", m.tied_embeddings},
          {"vocab_size", m.vocabulary}};
}

const char* class_of(Family family) {
  switch (family) {
    case Family::kLlama:
      return "LlamaForCausalLM";
    case Family::kMistral:
      return "MistralForCausalLM";
    case Family::kQwen2:
      return "Qwen2ForCausalLM";
    case Family::kQwen3:
      return "Qwen3ForCausalLM";
    case Family::kPhi3:
      return "Phi3ForCausalLM";
    case Family::kOlmo2:
      return "Olmo2ForCausalLM";
    case Family::kSmolLm3:
      return "SmolLM3ForCausalLM";
    case Family::kGemma:
      return "GemmaForCausalLM";
    case Family::kGemma2:
      return "Gemma2ForCausalLM";
    case Family::kMixtral:
      return "MixtralForCausalLM";
    case Family::kQwen3Moe:
      return "Qwen3MoeForCausalLM";
    case Family::kGpt2:
      return "GPT2LMHeadModel";
  }
  return "";
}

const char* torch_name(NumberType type) {
  return type == NumberType::kF32 ? "float32" : type == NumberType::kBf16 ? "bfloat16" : "float16";
}

}  // namespace

Result<Config> parse_config(std::string_view text, const std::string& file) {
  Config config;
  config.value = TRY(parse_json(text, file));
  config.family = TRY(family_in(config.value, file));
  config.model = TRY(model::parse_config_json(text, file)).model;
  config.model.sequence = std::max<int64_t>(config.model.sequence, 1);
  TRY(check_computed(config.value, config.family, file));
  const std::string other = mismatch(config.family, config.model);
  if (other.empty()) return config;
  return unusable(fmt::format("{}: as a {} its weights cannot be read: {}", file,
                              to_name(config.family), other));
}

Status check_same_model(const Model& job, const Config& config, const std::string& file) {
  // A window that no sample of the job reaches beyond is none.
  const auto of_samples = [&](Model m) {
    if (m.attention_window.value_or(0) >= job.sequence) {
      m.attention_window.reset();
      m.global_interval.reset();
    }
    return resolved(std::move(m));
  };
  const Value ours = of_samples(job), theirs = of_samples(config.model);
  std::vector<std::string> keys;
  for (const Value* side : {&ours, &theirs}) {
    for (const auto& [key, value] : *side->get<Value::Table>()) keys.push_back(key);
  }
  for (const std::string& key : keys) {
    const Value *here = ours.find(key), *there = theirs.find(key);
    if (here && there && *here == *there) continue;
    return unusable(
        fmt::format("model.{} is {} in the job and {} in {}", key, shown(here), shown(there), file),
        fmt::format("[model] with config = \"{}\"", file));
  }
  const std::optional<int64_t> window = window_of(config);
  if (!window || job.sequence <= *window) return {};
  return unusable(
      fmt::format("{}: sliding_window = {}: model.sequence = {} reaches further back, and windows "
                  "of such layers are not computed here",
                  file, *window, job.sequence),
      fmt::format("sequence = {}", *window));
}

std::string config_text(Family family, const Model& model, NumberType type) {
  Value::Table out{{"architectures", Value::Array{class_of(family)}},
                   {"model_type", std::string(to_name(family))}};
  Value::Table fields = family == Family::kGpt2 ? gpt2_fields(model) : llama_fields(family, model);
  for (auto& field : fields) out.push_back(std::move(field));
  out.emplace_back("torch_dtype", torch_name(type));
  return to_json(Value(std::move(out))) + "\n";
}

std::string config_text(const Config& config, NumberType type) {
  Value out = config.value;
  // Later versions of transformers call it dtype.
  out.set(out.find("dtype") ? "dtype" : "torch_dtype", torch_name(type));
  return to_json(out) + "\n";
}

}  // namespace tombolo::weights
