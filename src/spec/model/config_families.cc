// The families of config.json but for their experts and latent attention, which are in
// config_experts.cc.
#include <algorithm>
#include <cmath>

#include "spec/model/config_fields.h"

namespace tombolo::model::detail {
namespace {

void check_heads(Config& c, const char* hidden_key, const char* heads_key, const Model& m) {
  if (!m.head_dim && m.hidden % m.heads != 0) {
    c.refuse(heads_key, fmt::format("does not divide {} = {}, and there is no head_dim", hidden_key,
                                    m.hidden));
  }
  if (m.positions == Positions::kRotary && m.head_size() % 2 != 0) {
    c.refuse(heads_key,
             fmt::format("heads of {} numbers cannot be rotated in pairs", m.head_size()));
  }
}

void set_gpt(Model& m) {
  m.kv_heads = m.heads;
  m.norm = Norm::kLayer;
  m.activation = Activation::kGelu;
  m.bias = true;
}

// Where the llama-like families differ: what holds if their file leaves a field out.
struct Defaults {
  double norm_epsilon = 1e-6;
  double rope_theta = 10000;
  int64_t head_dim = 0;  // 0: hidden / heads
  bool attention_bias = false;
  bool tied_embeddings = false;
  double rotary_share = 1;
  // 0: the file must say so; kv_heads: as many as heads.
  int64_t heads = 0, kv_heads = 0, vocabulary = 0, sequence = 0;
};
Defaults defaults_of(const std::string& family) {
  if (family == "mixtral") return {1e-5, 1e6};
  if (family == "gpt_oss") return {1e-5, 150000, 64, true};
  if (family == "grok-1" || family == "olmo2" || family == "phi3") return {.norm_epsilon = 1e-5};
  if (family == "nemotron") return {.norm_epsilon = 1e-5, .rotary_share = 0.5};
  if (family == "glm4_moe") return {.norm_epsilon = 1e-5, .rotary_share = 0.5};
  if (family == "llama4_text") return {1e-5, 500000, 128};
  if (family == "qwen3_next") return {.head_dim = 256, .rotary_share = 0.25};
  if (family == "smollm3") return {.rope_theta = 2e6, .tied_embeddings = true};
  if (family == "gemma" || family == "gemma2") return {.head_dim = 256, .tied_embeddings = true};
  if (family == "gemma3_text") {
    return {.rope_theta = 1e6,
            .head_dim = 256,
            .tied_embeddings = true,
            .heads = 8,
            .kv_heads = 4,
            .vocabulary = 262208,
            .sequence = 131072};
  }
  if (family == "qwen3") return {.head_dim = 128};
  return {};
}

bool is_gemma(const std::string& family) { return family.starts_with("gemma"); }

// A number within rope_parameters, to which later versions moved it from the top level.
double rope_parameter(Config& c, const char* key, double otherwise) {
  const Value* table = c.take("rope_parameters");
  const Value* inner = table && table->get<Value::Table>() ? table->find(key) : nullptr;
  if (inner && inner->get<int64_t>()) return static_cast<double>(*inner->get<int64_t>());
  if (inner && inner->get<double>()) return *inner->get<double>();
  return otherwise;
}

double read_rope_theta(Config& c, double otherwise) {
  return c.number("rope_theta", rope_parameter(c, "rope_theta", otherwise));
}

// Llama 3.1's, the one that we compute. Others change neither a count nor a time, but what is
// computed, wherever the model goes from here.
void read_rope_scaling(Config& c, Model& m) {
  const Value* value = c.take("rope_scaling");
  if (!value) value = c.take("rope_parameters");
  const Value::Table* table = value ? value->get<Value::Table>() : nullptr;
  if (!table) return;
  Config inner(*table, c.file() + ": rope_scaling");
  std::string type = inner.text("rope_type");
  if (type.empty()) type = inner.text("type");
  if (type != "llama3") {
    if (!type.empty() && type != "default") {
      c.note(
          fmt::format("rope_scaling of type \"{}\" is ignored: positions are not stretched", type));
    }
    return;
  }
  for (const char* key : {"rope_theta", "partial_rotary_factor"}) inner.take(key);
  const int64_t first = inner.needed("original_max_position_embeddings", kCountMax);
  m.rope_scaling = RopeScaling{.factor = inner.number("factor", 8),
                               .low_frequency_factor = inner.number("low_freq_factor", 1),
                               .high_frequency_factor = inner.number("high_freq_factor", 4),
                               .first_sequence = first};
  c.absorb(std::move(inner));
}

// Heads that are rotated in part have as many parameters, and take as long.
void read_rotary_share(Config& c, const char* key, double otherwise, Model& m) {
  const double share = c.number(key, rope_parameter(c, "partial_rotary_factor", otherwise));
  if (!(share > 0) || share > 1) return c.refuse(key, "wanted a number between 0 and 1");
  if (share != 1) m.rotary_share = share;
}

void read_biases(Config& c, const std::string& family, bool otherwise, Model& m) {
  if (family == "qwen2") {
    c.flag("attention_bias", false);  // the family does not read it
    m.qkv_bias = true;
  } else if (family == "qwen2_moe") {
    if (c.flag("qkv_bias", true)) m.qkv_bias = true;
  } else if (family == "phi3") {
    c.flag("attention_bias", false);  // nor does this one
  } else if (family == "glm4_moe") {
    if (c.flag("attention_bias", false)) m.qkv_bias = true;
  } else if (c.flag("attention_bias", otherwise)) {
    m.qkv_bias = m.output_bias = true;
  }
  if (c.flag("mlp_bias", false)) m.mlp_bias = true;
}

void read_activation(Config& c, const std::string& family, Model& m) {
  const std::string activation = c.text("hidden_act");
  if (family == "nemotron") {
    m.norm = Norm::kLayer;
    m.activation = Activation::kSquaredRelu;
    if (!activation.empty() && activation != "relu2") {
      c.note(fmt::format(
          "hidden_act = \"{}\": counted as a squared ReLU, which is of the same size", activation));
    }
    return;
  }
  if (is_gemma(family)) {
    const std::string hidden = c.text("hidden_activation");  // newer than hidden_act
    const std::string& used = hidden.empty() ? activation : hidden;
    m.activation = Activation::kGeglu;
    if (!used.empty() && !used.starts_with("gelu")) {
      c.note(fmt::format("{} = \"{}\": counted as a gated MLP with GELU, of the same size",
                         hidden.empty() ? "hidden_act" : "hidden_activation", used));
    }
    return;
  }
  const bool silu = activation.empty() || activation == "silu" || activation == "swish";
  if (!silu && family != "grok-1") {  // whose gates are GELU
    c.note(fmt::format("hidden_act = \"{}\": counted as a gated MLP with SiLU, of the same size",
                       activation));
  }
}

void read_norms(Config& c, const std::string& family, Model& m) {
  if (family.starts_with("qwen3") || family == "gemma3_text") m.qk_norm = true;
  if (family == "glm4_moe" && c.flag("use_qk_norm", false)) m.qk_norm = true;
  if (family == "grok-1" || family == "gemma2" || family == "gemma3_text") m.output_norms = true;
  if (family == "olmo2") {
    m.input_norms = false;
    m.output_norms = true;
    m.whole_qk_norm = true;
  }
}

// n where every n-th layer is of the one kind and no other layer is; 0 where none is. Nothing where
// they come at uneven distances.
std::optional<int64_t> interval_of(const std::vector<bool>& kinds) {
  const auto found = std::find(kinds.begin(), kinds.end(), true);
  if (found == kinds.end()) return 0;
  const auto each = static_cast<size_t>(found - kinds.begin()) + 1;
  for (size_t layer = 0; layer < kinds.size(); ++layer) {
    if (kinds[layer] != ((layer + 1) % each == 0)) return std::nullopt;
  }
  return static_cast<int64_t>(each);
}

// Which layers rotate nothing: a list with a 0 for each of them, or every n-th.
void read_nope_layers(Config& c, const std::string& family, Model& m) {
  if (family != "smollm3" && family != "llama4_text") return;
  const int64_t interval = c.integer("no_rope_layer_interval", kLayersMax).value_or(4);
  const Value* value = c.take("no_rope_layers");
  const Value::Array* list = value ? value->get<Value::Array>() : nullptr;
  if (value && !list) return c.refuse("no_rope_layers", "wanted a list");
  if (!list || list->empty()) {
    if (interval <= m.layers) m.nope_interval = interval;
    return;
  }
  std::vector<bool> zeros;
  for (const Value& each : *list) zeros.push_back(each == Value(0));
  const std::optional<int64_t> each = interval_of(zeros);
  if (!each) return c.refuse("no_rope_layers", "the zeros do not come at even distances");
  if (*each > 0) m.nope_interval = *each;
}

// What holds of windows if a file leaves it out.
struct WindowDefaults {
  int64_t window = 0;    // 0: none
  int64_t interval = 0;  // every n-th layer has none; 0: all have
};
std::optional<WindowDefaults> windows_of(Config& c, const std::string& family, int64_t layers) {
  if (family == "mistral") return WindowDefaults{4096};
  if (family == "mixtral" || family == "phi3") return WindowDefaults{};
  if (family == "gemma2") return WindowDefaults{4096, 2};
  if (family == "gpt_oss") return WindowDefaults{128, 2};
  if (family == "gemma3_text") {
    const int64_t pattern = c.integer("_sliding_window_pattern", kLayersMax).value_or(6);
    return WindowDefaults{4096, c.integer("sliding_window_pattern", kLayersMax).value_or(pattern)};
  }
  // These have a switch, and where it is on the layers from max_window_layers on have windows.
  const bool qwen = family.starts_with("qwen2") || family == "qwen3" || family == "qwen3_moe";
  if (!qwen || !c.flag("use_sliding_window", false)) return std::nullopt;
  const int64_t first = c.integer("max_window_layers", kCountMax, 0).value_or(28);
  if (first == 0) return WindowDefaults{4096};
  if (first >= layers) return WindowDefaults{0, 1};
  return std::nullopt;
}

// How far attention looks back, and in which layers; a note where no field of a model says so.
void read_windows(Config& c, const std::string& family, Model& m) {
  const auto ignored = [&](const char* key) {
    c.note(fmt::format("{} is ignored: attention is counted over the whole sequence", key));
  };
  if (c.has("attention_chunk_size")) ignored("attention_chunk_size");
  c.take("use_sliding_window");  // whatever the family
  std::optional<WindowDefaults> windows = windows_of(c, family, m.layers);
  const bool given = c.has("sliding_window");
  const Value* types = c.take("layer_types");
  const Value::Array* list = types ? types->get<Value::Array>() : nullptr;
  if (windows && list) {
    std::vector<bool> whole;
    for (const Value& type : *list) whole.push_back(type != Value("sliding_attention"));
    if (const std::optional<int64_t> each = interval_of(whole)) {
      windows->interval = *each;
    } else {
      windows.reset();
    }
  }
  if (!windows) {
    const bool off = family == "smollm3" || family.starts_with("qwen");
    if (given && c.flag("use_sliding_window", !off)) ignored("sliding_window");
    return;
  }
  // Null says that there is none.
  const int64_t window = c.integer("sliding_window", kCountMax)
                             .value_or(c.is_null("sliding_window") ? 0 : windows->window);
  if (window == 0 || windows->interval == 1) return;
  m.attention_window = window;
  if (windows->interval > 1 && windows->interval <= m.layers) m.global_interval = windows->interval;
}

// What Gemma does to embeddings, norms, scores and logits.
void read_gemma(Config& c, const std::string& family, Model& m) {
  if (!is_gemma(family)) return;
  m.unit_offset_norms = m.scaled_embedding = true;
  if (family == "gemma") return;
  const double scalar = c.number("query_pre_attn_scalar", 256);
  if (!(scalar > 0)) return c.refuse("query_pre_attn_scalar", "wanted a positive number");
  if (scalar != static_cast<double>(m.head_size())) m.query_scalar = scalar;
  const auto cap = [&](const char* key, double otherwise, std::optional<double>& to) {
    const double value = c.is_null(key) ? 0 : c.number(key, otherwise);
    if (value < 0) c.refuse(key, "wanted a positive number");
    if (value > 0) to = value;
  };
  const bool second = family == "gemma2";
  cap("attn_logit_softcapping", second ? 50 : 0, m.attention_softcap);
  cap("final_logit_softcapping", second ? 30 : 0, m.logit_softcap);
  if (!second) m.window_rope_theta = c.number("rope_local_base_freq", 10000);
}

// What attn_config of MPT says.
void read_mpt_attention(Config& c, Model& m) {
  m.positions = Positions::kLearned;
  const bool learned = c.flag("learned_pos_emb", true);
  const Value* value = c.take("attn_config");
  const Value::Table* table = value ? value->get<Value::Table>() : nullptr;
  if (value && !table) return c.refuse("attn_config", "wanted a table");
  bool placed = learned;
  if (table) {
    Config a(*table, c.file() + ": attn_config");
    const std::string type = a.text("attn_type");
    const std::optional<int64_t> kv_heads = a.integer("kv_n_heads", kHeadsMax);
    if (type == "multiquery_attention") {
      m.kv_heads = 1;
    } else if (type == "grouped_query_attention") {
      if (!kv_heads) a.missing("kv_n_heads");
      m.kv_heads = kv_heads.value_or(1);
      if (m.heads % m.kv_heads != 0) a.refuse("kv_n_heads", "does not divide n_heads");
    } else if (!type.empty() && type != "multihead_attention") {
      a.refuse("attn_type", "an attention that we cannot count");
    }
    // These two take the place of learned positions, whatever learned_pos_emb says.
    const bool alibi = a.flag("alibi", false), rope = a.flag("rope", false);
    if (alibi && rope) a.refuse("alibi", "contradicts rope = true");
    if (alibi) m.positions = Positions::kAlibi;
    if (rope) m.positions = Positions::kRotary;
    placed = placed || alibi || rope;
    m.rope_theta = a.number("rope_theta", m.rope_theta);
    for (const char* key : {"qk_ln", "qk_gn"}) {
      if (a.flag(key, false)) a.refuse(key, "norms on queries and keys of MPT cannot be counted");
    }
    if (a.integer("sliding_window_size", kCountMax, -1).value_or(-1) > 0) {
      a.note("sliding_window_size is ignored: attention is counted over the whole sequence");
    }
    for (const char* key : {"attn_impl", "attn_pdrop", "attn_uses_sequence_id", "alibi_bias_max",
                            "clip_qkv", "prefix_lm", "softmax_scale", "rope_impl",
                            "rope_dail_config", "rope_hf_config", "model_type"}) {
      a.take(key);
    }
    c.absorb(std::move(a));
  }
  if (!placed) {
    m.positions = Positions::kAlibi;
    c.note("no positions at all: counted as ALiBi, which has no parameters either");
  }
}

}  // namespace

Model read_llama_like(Config& c, const std::string& family) {
  const Defaults defaults = defaults_of(family);
  Model m;
  m.layers = c.needed("num_hidden_layers", kLayersMax);
  m.hidden = c.needed("hidden_size", kWidthMax);
  const auto needed = [&](const char* key, int64_t max, int64_t otherwise) {
    return otherwise > 0 ? c.integer(key, max).value_or(otherwise) : c.needed(key, max);
  };
  m.heads = needed("num_attention_heads", kHeadsMax, defaults.heads);
  m.ffn = c.needed("intermediate_size", kFfnMax);
  m.vocabulary = needed("vocab_size", kCountMax, defaults.vocabulary);
  m.sequence = c.integer("max_position_embeddings", kCountMax).value_or(defaults.sequence);
  m.kv_heads = c.integer("num_key_value_heads", kHeadsMax)
                   .value_or(defaults.kv_heads > 0 ? defaults.kv_heads : m.heads);
  if (m.heads % m.kv_heads != 0) {
    c.refuse("num_key_value_heads",
             fmt::format("does not divide num_attention_heads = {}", m.heads));
  }
  std::optional<int64_t> head_dim = c.integer("head_dim", kWidthMax / m.heads);
  if (!head_dim && defaults.head_dim > 0) head_dim = defaults.head_dim;
  if (head_dim && *head_dim * m.heads != m.hidden) m.head_dim = *head_dim;
  read_latent_attention(c, family, m);
  if (!m.latent_attention) check_heads(c, "hidden_size", "num_attention_heads", m);
  m.rope_theta = read_rope_theta(c, defaults.rope_theta);
  read_rope_scaling(c, m);
  read_rotary_share(c, "partial_rotary_factor", defaults.rotary_share, m);
  m.norm_epsilon =
      c.number(family == "nemotron" ? "norm_eps" : "rms_norm_eps", defaults.norm_epsilon);
  m.tied_embeddings = c.flag("tie_word_embeddings", defaults.tied_embeddings);
  if (family == "gpt_oss") m.attention_sinks = true;
  read_norms(c, family, m);
  read_nope_layers(c, family, m);
  read_linear_attention(c, family, m);
  read_biases(c, family, defaults.attention_bias, m);
  read_activation(c, family, m);
  read_experts(c, family, m);
  read_windows(c, family, m);
  read_gemma(c, family, m);
  return m;
}

// Phi-1 to Phi-2: one LayerNorm before attention and MLP, whose results are summed, and biases
// everywhere, the head's among them.
Model read_phi(Config& c) {
  Model m;
  m.layers = c.needed("num_hidden_layers", kLayersMax);
  m.hidden = c.needed("hidden_size", kWidthMax);
  m.heads = c.needed("num_attention_heads", kHeadsMax);
  m.ffn = c.needed("intermediate_size", kFfnMax);
  m.vocabulary = c.needed("vocab_size", kCountMax);
  m.sequence = c.integer("max_position_embeddings", kCountMax).value_or(0);
  set_gpt(m);
  m.kv_heads = c.integer("num_key_value_heads", kHeadsMax).value_or(m.heads);
  if (m.heads % m.kv_heads != 0) {
    c.refuse("num_key_value_heads",
             fmt::format("does not divide num_attention_heads = {}", m.heads));
  }
  m.parallel_residual = m.shared_norm = m.head_bias = true;
  m.norm_epsilon = c.number("layer_norm_eps", 1e-5);
  m.rope_theta = read_rope_theta(c, m.rope_theta);
  read_rope_scaling(c, m);
  read_rotary_share(c, "partial_rotary_factor", 0.5, m);
  m.tied_embeddings = c.flag("tie_word_embeddings", false);
  if (c.flag("qk_layernorm", false)) {
    c.refuse("qk_layernorm", "norms on queries and keys of Phi cannot be counted");
  }
  check_heads(c, "hidden_size", "num_attention_heads", m);
  c.text("hidden_act");
  return m;
}

Model read_gpt2(Config& c) {
  Model m;
  m.layers = c.needed("n_layer", kLayersMax);
  m.hidden = c.needed("n_embd", kWidthMax);
  m.heads = c.needed("n_head", kHeadsMax);
  m.ffn = c.integer("n_inner", kFfnMax).value_or(4 * m.hidden);
  m.vocabulary = c.needed("vocab_size", kCountMax);
  m.sequence = c.needed("n_positions", kCountMax);
  const std::optional<int64_t> context = c.integer("n_ctx", kCountMax);
  if (context && *context != m.sequence) {
    c.refuse("n_ctx", fmt::format("contradicts n_positions = {}", m.sequence));
  }
  set_gpt(m);
  m.positions = Positions::kLearned;
  m.positions_max = m.sequence;  // a shorter sequence leaves the table as long as it is
  m.norm_epsilon = c.number("layer_norm_epsilon", 1e-5);
  m.tied_embeddings = c.flag("tie_word_embeddings", true);
  check_heads(c, "n_embd", "n_head", m);
  c.text("activation_function");  // all of them have two matrices
  return m;
}

Model read_gpt_neox(Config& c) {
  Model m;
  m.layers = c.needed("num_hidden_layers", kLayersMax);
  m.hidden = c.needed("hidden_size", kWidthMax);
  m.heads = c.needed("num_attention_heads", kHeadsMax);
  m.ffn = c.needed("intermediate_size", kFfnMax);
  m.vocabulary = c.needed("vocab_size", kCountMax);
  m.sequence = c.integer("max_position_embeddings", kCountMax).value_or(0);
  set_gpt(m);
  if (!c.flag("attention_bias", true)) m.qkv_bias = m.output_bias = false;
  m.parallel_residual = c.flag("use_parallel_residual", true);
  m.norm_epsilon = c.number("layer_norm_eps", 1e-5);
  m.rope_theta = c.number("rotary_emb_base", rope_parameter(c, "rope_theta", m.rope_theta));
  read_rope_scaling(c, m);
  read_rotary_share(c, "rotary_pct", 0.25, m);
  m.tied_embeddings = c.flag("tie_word_embeddings", false);
  check_heads(c, "hidden_size", "num_attention_heads", m);
  c.text("hidden_act");
  return m;
}

// MosaicML's llm-foundry, whose defaults hold, not those of Transformers.
Model read_mpt(Config& c) {
  Model m;
  m.layers = c.needed("n_layers", kLayersMax);
  m.hidden = c.needed("d_model", kWidthMax);
  m.heads = c.needed("n_heads", kHeadsMax);
  m.vocabulary = c.needed("vocab_size", kCountMax);
  m.sequence = c.needed("max_seq_len", kCountMax);
  set_gpt(m);
  const double ffn = c.number("expansion_ratio", 4) * static_cast<double>(m.hidden);
  if (ffn >= 1 && ffn <= static_cast<double>(kFfnMax) && std::floor(ffn) == ffn) {
    m.ffn = static_cast<int64_t>(ffn);
  } else {
    c.refuse("expansion_ratio", fmt::format("times d_model = {} is no width of an MLP", m.hidden));
  }
  read_mpt_attention(c, m);
  if (m.positions == Positions::kLearned) m.positions_max = m.sequence;
  if (c.flag("no_bias", false)) {
    m.bias = false;
    m.norm_bias = false;
  }
  m.tied_embeddings = c.flag("tie_word_embeddings", true);
  m.norm_epsilon = c.number("layer_norm_epsilon", 1e-5);
  const std::string norm = c.text("norm_type");
  if (norm.find("rmsnorm") != std::string::npos) {
    m.norm = Norm::kRms;
    m.norm_bias.reset();
  } else if (!norm.empty() && norm.find("layernorm") == std::string::npos) {
    c.refuse("norm_type", "a norm that we cannot count");
  }
  const Value* mlp = c.take("ffn_config");
  const Value* type = mlp && mlp->get<Value::Table>() ? mlp->find("ffn_type") : nullptr;
  if (type && *type != Value(std::string("mptmlp"))) {
    c.refuse("ffn_config", "an MLP that we cannot count");
  }
  check_heads(c, "d_model", "n_heads", m);
  return m;
}

}  // namespace tombolo::model::detail
