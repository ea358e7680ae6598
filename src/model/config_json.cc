#include "model/config_json.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include "base/file.h"
#include "base/json.h"

namespace tombolo::model {
namespace {

// The file's fields, taken one by one; what nobody took is unknown. The first problem is kept.
class Config {
 public:
  Config(const Value::Table& table, std::string file) : table_(table), file_(std::move(file)) {}

  // The value, or null where it is left out or null.
  const Value* take(std::string_view key) {
    taken_.insert(std::string(key));
    for (const auto& [name, value] : table_) {
      if (name == key && !value.is_null()) return &value;
    }
    return nullptr;
  }
  bool has(std::string_view key) { return take(key) != nullptr; }

  std::optional<int64_t> integer(std::string_view key, int64_t max) {
    const Value* value = take(key);
    if (!value) return std::nullopt;
    std::optional<int64_t> number;
    if (const int64_t* exact = value->get<int64_t>()) number = *exact;
    if (const double* real = value->get<double>()) {
      if (std::abs(*real) < 1e15 && std::floor(*real) == *real) {
        number = static_cast<int64_t>(*real);
      }
    }
    if (number && *number >= 1 && *number <= max) return number;
    refuse(key, fmt::format("wanted a whole number between 1 and {}", max));
    return std::nullopt;
  }
  int64_t needed(std::string_view key, int64_t max) {
    const std::optional<int64_t> number = integer(key, max);
    if (!number && !has(key)) complain(fmt::format("{}: {} is missing", file_, key));
    return number.value_or(1);
  }
  double number(std::string_view key, double otherwise) {
    const Value* value = take(key);
    if (!value) return otherwise;
    if (const int64_t* whole = value->get<int64_t>()) return static_cast<double>(*whole);
    if (const double* real = value->get<double>()) return *real;
    refuse(key, "wanted a number");
    return otherwise;
  }
  bool flag(std::string_view key, bool otherwise) {
    const Value* value = take(key);
    if (!value) return otherwise;
    if (const bool* flag = value->get<bool>()) return *flag;
    refuse(key, "wanted true or false");
    return otherwise;
  }
  std::string text(std::string_view key) {
    const Value* value = take(key);
    if (!value) return "";
    if (const std::string* text = value->get<std::string>()) return *text;
    refuse(key, "wanted a text");
    return "";
  }

  void refuse(std::string_view key, std::string_view why, std::string hint = {}) {
    const Value* value = take(key);
    std::string shown = value ? to_json(*value, -1) : "left out";
    if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
    complain(fmt::format("{}: {} = {}: {}", file_, key, shown, why), std::move(hint));
  }
  void note(std::string sentence) { notes_.push_back(file_ + ": " + std::move(sentence)); }
  const std::optional<Error>& error() const { return error_; }

  // The notes, and one for all fields that nobody took.
  std::vector<std::string> finish() {
    std::string unknown;
    for (const auto& [name, value] : table_) {
      if (!taken_.contains(name)) unknown += (unknown.empty() ? "" : ", ") + name;
    }
    if (!unknown.empty()) note("unknown and ignored: " + unknown);
    return std::move(notes_);
  }

 private:
  void complain(std::string message, std::string hint = {}) {
    if (!error_) error_ = Error{ErrorCode::kUnusable, std::move(message), {}, std::move(hint)};
  }

  const Value::Table& table_;
  std::string file_;
  std::set<std::string> taken_;
  std::vector<std::string> notes_;
  std::optional<Error> error_;
};

// The same upper limits as describe(Model&): they keep products from overflowing.
constexpr int64_t kLayersMax = 100'000, kHeadsMax = 100'000, kWidthMax = 1'000'000;
constexpr int64_t kFfnMax = 10'000'000, kCountMax = 100'000'000;

// Neither a count nor a time depends on these.
constexpr const char* kNoBearing[] = {"architectures",
                                      "_name_or_path",
                                      "transformers_version",
                                      "torch_dtype",
                                      "dtype",
                                      "auto_map",
                                      "bos_token_id",
                                      "eos_token_id",
                                      "pad_token_id",
                                      "sep_token_id",
                                      "unk_token_id",
                                      "decoder_start_token_id",
                                      "use_cache",
                                      "initializer_range",
                                      "gradient_checkpointing",
                                      "attention_dropout",
                                      "hidden_dropout",
                                      "attn_pdrop",
                                      "embd_pdrop",
                                      "resid_pdrop",
                                      "classifier_dropout",
                                      "summary_activation",
                                      "summary_first_dropout",
                                      "summary_proj_to_labels",
                                      "summary_type",
                                      "summary_use_proj",
                                      "task_specific_params",
                                      "pretraining_tp",
                                      "id2label",
                                      "label2id",
                                      "is_decoder",
                                      "output_past",
                                      "scale_attn_weights",
                                      "scale_attn_by_inverse_layer_idx",
                                      "reorder_and_upcast_attn",
                                      "rotary_pct",
                                      "rotary_emb_base",
                                      "partial_rotary_factor",
                                      "rope_scaling",
                                      "rope_parameters",
                                      "max_window_layers"};

struct Family {
  const char* model_type;
  const char* architecture;  // how the names of its classes begin
};
constexpr Family kFamilies[] = {{"llama", "Llama"},
                                {"mistral", "Mistral"},
                                {"qwen2", "Qwen2"},
                                {"gpt2", "GPT2"},
                                {"gpt_neox", "GPTNeoX"}};

// Which family: by model_type, else by the names of the fields.
std::string family_of(Config& c) {
  const std::string type = c.text("model_type");
  if (type.empty()) {
    const std::string guess = c.has("n_embd") ? "gpt2" : "llama";
    c.note("no model_type: read as " + guess);
    return guess;
  }
  std::string names;
  const Family* found = nullptr;
  for (const Family& family : kFamilies) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", family.model_type);
    if (type == family.model_type) found = &family;
  }
  if (!found) {
    c.refuse("model_type", "a family that we cannot count",
             fmt::format("one of {}, or the numbers inline in [model]", names));
    return "";
  }
  // "LlamaForCausalLM" in a file of model_type gpt2.
  const Value* list = c.take("architectures");
  const Value::Array* architectures = list ? list->get<Value::Array>() : nullptr;
  const std::string* name = architectures && !architectures->empty()
                                ? architectures->front().get<std::string>()
                                : nullptr;
  for (const Family& family : kFamilies) {
    if (name && &family != found && name->starts_with(std::string(family.architecture) + "For")) {
      c.refuse("model_type", fmt::format("contradicts architectures = [\"{}\"]", *name));
    }
  }
  return type;
}

void refuse_what_is_no_dense_decoder(Config& c) {
  for (const char* key :
       {"num_local_experts", "n_routed_experts", "num_experts", "moe_intermediate_size"}) {
    const Value* value = c.take(key);
    if (!value || *value == Value(0) || *value == Value(1)) continue;
    c.refuse(key, "mixture-of-experts models are not supported yet", "a dense model");
  }
  if (c.flag("is_encoder_decoder", false)) {
    c.refuse("is_encoder_decoder", "only decoders can be counted");
  }
  if (c.flag("add_cross_attention", false)) {
    c.refuse("add_cross_attention", "only decoders can be counted");
  }
}

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

// Llama, Mistral, Qwen2: one layout, three sets of defaults.
Model read_llama(Config& c, const std::string& family) {
  Model m;
  m.layers = c.needed("num_hidden_layers", kLayersMax);
  m.hidden = c.needed("hidden_size", kWidthMax);
  m.heads = c.needed("num_attention_heads", kHeadsMax);
  m.ffn = c.needed("intermediate_size", kFfnMax);
  m.vocabulary = c.needed("vocab_size", kCountMax);
  m.sequence = c.integer("max_position_embeddings", kCountMax).value_or(0);
  m.kv_heads = c.integer("num_key_value_heads", kHeadsMax).value_or(m.heads);
  if (m.heads % m.kv_heads != 0) {
    c.refuse("num_key_value_heads",
             fmt::format("does not divide num_attention_heads = {}", m.heads));
  }
  const std::optional<int64_t> head_dim = c.integer("head_dim", kWidthMax / m.heads);
  if (head_dim && *head_dim * m.heads != m.hidden) m.head_dim = *head_dim;
  check_heads(c, "hidden_size", "num_attention_heads", m);
  m.rope_theta = c.number("rope_theta", m.rope_theta);
  m.norm_epsilon = c.number("rms_norm_eps", 1e-6);
  m.tied_embeddings = c.flag("tie_word_embeddings", false);

  const bool attention_bias = c.flag("attention_bias", false);
  if (family == "qwen2") {
    m.qkv_bias = true;
  } else if (attention_bias) {
    m.qkv_bias = m.output_bias = true;
  }
  if (c.flag("mlp_bias", false)) m.mlp_bias = true;

  const std::string activation = c.text("hidden_act");
  if (!activation.empty() && activation != "silu" && activation != "swish") {
    c.note(fmt::format("hidden_act = \"{}\": counted as a gated MLP with SiLU, of the same size",
                       activation));
  }
  const bool window = c.flag("use_sliding_window", true);
  if (c.has("sliding_window") && window) {
    c.note("sliding_window is ignored: attention is counted over the whole sequence");
  }
  return m;
}

void set_gpt(Model& m) {
  m.kv_heads = m.heads;
  m.norm = Norm::kLayer;
  m.activation = Activation::kGelu;
  m.bias = true;
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
  m.rope_theta = c.number("rotary_emb_base", m.rope_theta);
  m.tied_embeddings = c.flag("tie_word_embeddings", false);
  check_heads(c, "hidden_size", "num_attention_heads", m);
  c.text("hidden_act");
  return m;
}

}  // namespace

Result<ModelSection> parse_config_json(std::string_view text, const std::string& file) {
  const Value value = TRY(parse_json(text, file));
  const Value::Table* table = value.get<Value::Table>();
  if (!table) return unusable(fmt::format("{}: wanted a table, found {}", file, value.kind()));
  Config c(*table, file);
  const std::string family = family_of(c);
  if (c.error()) return fail(*c.error());
  refuse_what_is_no_dense_decoder(c);
  ModelSection section;
  Model& m = section.model;
  if (family == "gpt2") {
    m = read_gpt2(c);
  } else if (family == "gpt_neox") {
    m = read_gpt_neox(c);
  } else {
    m = read_llama(c, family);
  }
  if (const Value* types = c.take("layer_types")) {
    const Value::Array* list = types->get<Value::Array>();
    if (!list || static_cast<int64_t>(list->size()) != m.layers) {
      c.refuse("layer_types", fmt::format("wanted one entry for each of {} layers", m.layers));
    }
  }
  if (!(m.norm_epsilon > 0) || !(m.rope_theta > 0)) {
    return unusable(
        fmt::format("{}: the epsilon of the norms and the base of the rotations must "
                    "be positive",
                    file));
  }
  m.name = std::filesystem::path(c.text("_name_or_path")).filename().string();
  if (m.name.empty()) m.name = family;
  for (const char* key : kNoBearing) c.take(key);
  if (c.error()) return fail(*c.error());
  section.notes = c.finish();
  return section;
}

Result<ModelSection> read_config_json(const std::string& path) {
  const std::string text = TRY(read_file(path, 1 << 20));
  return parse_config_json(text, path);
}

}  // namespace tombolo::model
