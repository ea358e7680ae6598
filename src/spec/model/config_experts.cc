// Mixtures of experts, latent and linear attention in a config.json.
#include <algorithm>

#include "base/check.h"
#include "spec/model/config_fields.h"

namespace tombolo::model::detail {
namespace {

bool is_deepseek(const std::string& family) { return family.starts_with("deepseek"); }

// Whose first layers are dense, and whose shared expert is as wide as several routed ones.
bool counts_like_deepseek(const std::string& family) {
  return is_deepseek(family) || family == "glm4_moe";
}

bool has_a_gated_shared_expert(const std::string& family) {
  return family == "qwen2_moe" || family == "qwen3_next";
}

// Families whose intermediate_size is the width of an expert.
bool has_experts_only(const std::string& family) {
  return family == "mixtral" || family == "gpt_oss" || family == "grok-1" ||
         family == "llama4_text";
}

bool has_experts(const std::string& family) {
  return has_experts_only(family) || is_deepseek(family) || family.ends_with("_moe") ||
         family == "qwen3_next";
}

void refuse_experts(Config& c) {
  for (const char* key :
       {"num_local_experts", "n_routed_experts", "num_experts", "moe_intermediate_size"}) {
    const Value* value = c.take(key);
    if (!value || *value == Value(0) || *value == Value(1)) continue;
    c.refuse(key, "its model_type is a family without experts",
             "the model_type of a mixture of experts, as mixtral or qwen3_moe");
  }
}

// mlp_only_layers lists layers with an MLP; only the first ones can be told apart.
int64_t read_mlp_only_layers(Config& c) {
  const Value* value = c.take("mlp_only_layers");
  if (!value) return 0;
  std::vector<int64_t> layers;
  const Value::Array* list = value->get<Value::Array>();
  for (const Value& entry : list ? *list : Value::Array{}) {
    const int64_t* layer = entry.get<int64_t>();
    layers.push_back(layer ? *layer : -1);
  }
  std::sort(layers.begin(), layers.end());
  for (size_t i = 0; i < layers.size() || !list; ++i) {
    if (list && layers[i] == static_cast<int64_t>(i)) continue;
    c.refuse("mlp_only_layers", "only the first layers, 0, 1 and so on, may have an MLP instead",
             "[model] with the numbers inline");
    return 0;
  }
  return static_cast<int64_t>(layers.size());
}

// Which layers have experts: all after the first n, or every n-th.
void read_which_layers(Config& c, const std::string& family, int64_t layers, Experts& e) {
  if (c.integer("moe_layer_freq", kLayersMax).value_or(1) != 1) {
    c.refuse("moe_layer_freq", "which layers have experts cannot be told");
  }
  const bool deepseek = counts_like_deepseek(family);
  const int64_t otherwise = family == "deepseek_v3" ? 3 : family == "glm4_moe" ? 1 : 0;
  e.dense_layers = deepseek ? c.integer("first_k_dense_replace", kLayersMax, 0).value_or(otherwise)
                            : read_mlp_only_layers(c);
  if (e.dense_layers > layers) {
    c.refuse(deepseek ? "first_k_dense_replace" : "mlp_only_layers",
             fmt::format("more than num_hidden_layers = {}", layers));
  }
  e.every = c.integer("decoder_sparse_step", kLayersMax).value_or(1);
  if (e.every > 1 && (deepseek || e.dense_layers > 0)) {
    c.refuse("decoder_sparse_step", "cannot be combined with dense first layers");
  }
}

// Llama 4 has its experts in every n-th layer, given by n or as a list of layers, and a shared one
// as wide as they are; the other layers have an MLP of another width.
void read_llama4_layers(Config& c, Model& m, Experts& e) {
  e.shared_ffn = e.ffn;
  m.ffn = c.integer("intermediate_size_mlp", kFfnMax).value_or(16384);
  e.every = c.integer("interleave_moe_layer_step", kLayersMax).value_or(1);
  const Value* value = c.take("moe_layers");
  const Value::Array* list = value ? value->get<Value::Array>() : nullptr;
  if (!value) return;
  // The list goes before the number.
  const int64_t* first = list && !list->empty() ? list->front().get<int64_t>() : nullptr;
  e.every = first && *first >= 0 && *first < m.layers ? *first + 1 : m.layers + 1;
  Value::Array wanted;
  for (int64_t layer = e.every - 1; layer < m.layers; layer += e.every) wanted.push_back(layer);
  if (!list || wanted.empty() || *list != wanted) {
    c.refuse("moe_layers", "only every n-th layer may have experts");
    e.every = 1;
  }
}

}  // namespace

void read_experts(Config& c, const std::string& family, Model& m) {
  CHECK(m.layers >= 1 && m.ffn >= 1, "experts of {} layers of width {}", m.layers, m.ffn);
  const int64_t further = c.integer("num_nextn_predict_layers", 100, 0).value_or(0);
  if (further > 0) m.multi_token_layers = further;
  if (!has_experts(family)) return refuse_experts(c);
  const std::optional<int64_t> count =
      c.integer_of({"num_experts", "num_local_experts", "n_routed_experts"}, 1'000'000);
  if (!count && is_deepseek(family)) return;  // a dense one
  if (!count) c.missing(family.starts_with("qwen") ? "num_experts" : "num_local_experts");
  const std::optional<int64_t> per_token =
      c.integer_of({"num_experts_per_tok", "experts_per_token"}, 1'000'000);
  if (!per_token) c.missing("num_experts_per_tok");

  Experts e;
  e.count = count.value_or(1);
  e.per_token = per_token.value_or(1);
  if (e.per_token > e.count) {
    c.refuse("num_experts_per_tok", fmt::format("of only {} experts", e.count));
  }
  if (has_experts_only(family)) {
    e.ffn = m.ffn;
  } else {
    e.ffn = c.needed("moe_intermediate_size", kFfnMax);
    read_which_layers(c, family, m.layers, e);
  }
  if (family == "llama4_text") read_llama4_layers(c, m, e);
  if (e.ffn > kFfnMax / e.count) {
    c.refuse(has_experts_only(family) ? "intermediate_size" : "moe_intermediate_size",
             fmt::format("times {} experts is more than {}", e.count, kFfnMax));
    e.ffn = 1;
  }
  if (counts_like_deepseek(family)) {
    e.shared_ffn = c.integer("n_shared_experts", kFfnMax / e.ffn, 0).value_or(0) * e.ffn;
    const std::string method = c.text("topk_method");
    e.score_bias = family != "deepseek_v2" && (method.empty() || method == "noaux_tc");
  }
  if (has_a_gated_shared_expert(family)) {
    e.shared_ffn = c.integer("shared_expert_intermediate_size", kFfnMax, 0).value_or(0);
    e.shared_gate = e.shared_ffn > 0;
  }
  e.bias = family == "gpt_oss";
  m.experts = e;
}

// Qwen3-Next: attention to all tokens in every n-th layer, given by n or by layer_types.
void read_linear_attention(Config& c, const std::string& family, Model& m) {
  if (family != "qwen3_next") return;
  LinearAttention l;
  l.key_heads = c.integer("linear_num_key_heads", kHeadsMax).value_or(16);
  l.value_heads = c.integer("linear_num_value_heads", kHeadsMax).value_or(32);
  l.key_dim = c.integer("linear_key_head_dim", kWidthMax / l.key_heads).value_or(128);
  l.value_dim = c.integer("linear_value_head_dim", kWidthMax / l.value_heads).value_or(128);
  l.kernel = c.integer("linear_conv_kernel_dim", kHeadsMax).value_or(4);
  l.every = c.integer("full_attention_interval", kLayersMax).value_or(4);
  const Value* value = c.take("layer_types");
  const Value::Array* types = value ? value->get<Value::Array>() : nullptr;
  if (types) {
    const Value full("full_attention");
    const auto first = std::find(types->begin(), types->end(), full) - types->begin();
    if (!c.has("full_attention_interval")) l.every = first + 1;
    for (size_t i = 0; i < types->size(); ++i) {
      const bool attends = static_cast<int64_t>(i + 1) % l.every == 0;
      if (((*types)[i] == full) == attends) continue;
      c.refuse("layer_types",
               fmt::format("attention to all tokens is not that of each layer in {}", l.every));
      break;
    }
  }
  if (l.value_heads % l.key_heads != 0) {
    c.refuse("linear_num_value_heads",
             fmt::format("is no multiple of linear_num_key_heads = {}", l.key_heads));
  }
  m.attention_gate = true;
  m.linear_attention = l;
}

void read_latent_attention(Config& c, const std::string& family, Model& m) {
  if (!is_deepseek(family)) return;
  CHECK(m.heads >= 1, "latent attention of {} heads", m.heads);
  LatentAttention l;
  l.query_rank = c.integer("q_lora_rank", kWidthMax, 0).value_or(0);
  l.kv_rank = c.needed("kv_lora_rank", kWidthMax);
  l.nope_dim = c.needed("qk_nope_head_dim", kWidthMax);
  l.rope_dim = c.needed("qk_rope_head_dim", kWidthMax);
  l.value_dim = c.needed("v_head_dim", kWidthMax);
  const std::optional<int64_t> together = c.integer("qk_head_dim", kWidthMax);
  if (together && *together != l.nope_dim + l.rope_dim) {
    c.refuse("qk_head_dim", fmt::format("contradicts qk_nope_head_dim = {} + qk_rope_head_dim = {}",
                                        l.nope_dim, l.rope_dim));
  }
  if (l.rope_dim % 2 != 0) c.refuse("qk_rope_head_dim", "cannot be rotated in pairs");
  if (std::max(l.nope_dim + l.rope_dim, l.value_dim) > kWidthMax / m.heads) {
    c.refuse("num_attention_heads",
             fmt::format("times the widths of a head is more than {}", kWidthMax));
  }
  if (m.kv_heads != m.heads) {
    c.note("num_key_value_heads is ignored: in latent attention every head has its keys");
  }
  m.kv_heads = m.heads;
  m.head_dim.reset();  // files give that of the rotated part
  m.latent_attention = l;
}

}  // namespace tombolo::model::detail
