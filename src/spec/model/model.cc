#include "spec/model/model.h"

#include "base/check.h"

namespace tombolo::model {
namespace {

int64_t norm_parameters(const Model& m, int64_t width) {
  return width * (m.norm == Norm::kLayer && m.norm_bias.value_or(true) ? 2 : 1);
}

int64_t attention_parameters(const Model& m) {
  const bool qkv_bias = m.qkv_bias.value_or(m.bias);
  int64_t count = m.output_bias.value_or(m.bias) ? m.hidden : 0;
  if (m.attention_sinks.value_or(false)) count += m.heads;
  if (m.latent_attention) {
    const LatentAttention& l = *m.latent_attention;
    const int64_t queries = m.heads * (l.nope_dim + l.rope_dim);
    if (l.query_rank > 0) {
      count += m.hidden * l.query_rank + norm_parameters(m, l.query_rank) + l.query_rank * queries;
    } else {
      count += m.hidden * queries;
    }
    count += m.hidden * (l.kv_rank + l.rope_dim) + norm_parameters(m, l.kv_rank);
    count += l.kv_rank * m.heads * (l.nope_dim + l.value_dim);
    count += m.heads * l.value_dim * m.hidden;
    if (qkv_bias) count += l.query_rank + l.kv_rank + l.rope_dim;
    return count;
  }
  const int64_t keys = m.kv_heads * m.head_size();
  const int64_t qkv = m.query_width() + 2 * keys;
  count += m.hidden * qkv + m.attention_width() * m.hidden;
  if (qkv_bias) count += qkv;
  if (m.qk_norm.value_or(false)) count += 2 * norm_parameters(m, m.head_size());
  if (m.whole_qk_norm.value_or(false)) {
    count += norm_parameters(m, m.attention_width()) + norm_parameters(m, keys);
  }
  return count;
}

// Queries, keys, values and their gate; two numbers per head, how fast its state fades and how much
// of a token it takes, with a bias and a scale for the former; a norm of one head.
int64_t linear_attention_parameters(const Model& m) {
  const LinearAttention& l = *m.linear_attention;
  const int64_t projected = l.mixed_width() + l.value_width() + 2 * l.value_heads;
  return m.hidden * projected + l.mixed_width() * l.kernel + 2 * l.value_heads + l.value_dim +
         l.value_width() * m.hidden;
}

int64_t mlp_parameters(const Model& m, int64_t width, bool bias) {
  const int64_t matrices = mlp_matrices(m);
  return matrices * m.hidden * width + (bias ? (matrices - 1) * width + m.hidden : 0);
}

// One routed expert.
int64_t expert(const Model& m) { return mlp_parameters(m, m.experts->ffn, m.experts->bias); }

// What a layer with experts has in place of the MLP, but for the routed experts.
int64_t around_the_experts(const Model& m) {
  const Experts& e = *m.experts;
  int64_t count = m.hidden * e.count;  // the router
  if (e.bias) count += e.count;
  if (e.score_bias) count += e.count;
  if (e.shared_ffn > 0) count += mlp_parameters(m, e.shared_ffn, e.bias);
  if (e.shared_gate) count += m.hidden;
  return count;
}

int64_t norms_of_a_layer(const Model& m) {
  const int64_t before = m.shared_norm.value_or(false) ? 1 : 2;
  return (m.input_norms.value_or(true) ? before : 0) + (m.output_norms.value_or(false) ? 2 : 0);
}

// Without attention and the routed experts.
int64_t layer_parameters(const Model& m, bool experts) {
  return norms_of_a_layer(m) * norm_parameters(m, m.hidden) +
         (experts ? around_the_experts(m) : mlp_parameters(m, m.ffn, m.mlp_bias.value_or(m.bias)));
}

}  // namespace

int64_t mlp_matrices(const Model& m) { return m.gated_mlp() ? 3 : 2; }

Slice stage_slice(const Model& m, int64_t stages, int64_t stage) {
  CHECK(stage >= 0 && stage < stages, "stage {} of {}", stage, stages);
  Slice slice{.embedding = stage == 0, .head = stage == stages - 1};
  const int64_t slots = m.layers + 2;
  if (stages > 1 && m.layers % stages != 0 && slots % stages == 0) {
    const int64_t each = slots / stages;
    slice.layers = each - (slice.embedding ? 1 : 0) - (slice.head ? 1 : 0);
    slice.first_layer = stage == 0 ? 0 : stage * each - 1;
    return slice;
  }
  const int64_t more = m.layers % stages;
  slice.layers = m.layers / stages + (stage < more ? 1 : 0);
  slice.first_layer = stage * (m.layers / stages) + std::min(stage, more);
  return slice;
}

LayerCounts count_layers(const Model& m, const Slice& slice) {
  LayerCounts layers;
  layers.multi_token = slice.head ? m.multi_token_layers.value_or(0) : 0;
  const int64_t end = slice.first_layer + slice.layers;
  // How many layers of the slice are an `every`-th layer of the model, counted from its first.
  const auto each = [&](int64_t every) { return end / every - slice.first_layer / every; };
  if (m.experts && m.experts->every > 1) {
    layers.experts = each(m.experts->every);
  } else if (m.experts) {
    layers.experts = std::clamp<int64_t>(end - m.experts->dense_layers, 0, slice.layers);
  }
  layers.dense = slice.layers - layers.experts;
  if (m.linear_attention) layers.linear = slice.layers - each(m.linear_attention->every);
  if (m.has_windows()) {
    layers.windowed = slice.layers - (m.global_interval ? each(*m.global_interval) : 0);
  }
  // They stand after the last layer, and are as that one is.
  const bool experts =
      m.experts && m.experts->dense_layers < m.layers && m.layers % m.experts->every == 0;
  (experts ? layers.experts : layers.dense) += layers.multi_token;
  return layers;
}

int64_t expert_parameters(const Model& m, const Slice& slice) {
  if (!m.experts) return 0;
  return count_layers(m, slice).experts * m.experts->count * expert(m);
}

int64_t parameters(const Model& m, const Slice& slice) {
  // 0 stands for a default in files alone (read_model).
  CHECK((m.ffn > 0 || m.hidden == 0) && (m.kv_heads > 0 || m.heads == 0),
        "a model is not resolved: hidden {}, ffn {}, heads {}, kv_heads {}", m.hidden, m.ffn,
        m.heads, m.kv_heads);
  const LayerCounts layers = count_layers(m, slice);
  const int64_t attend = layers.dense + layers.experts - layers.linear;
  int64_t count = attend * attention_parameters(m);
  if (layers.linear > 0) count += layers.linear * linear_attention_parameters(m);
  count += layers.dense * layer_parameters(m, false) + expert_parameters(m, slice);
  if (layers.experts > 0) count += layers.experts * layer_parameters(m, true);
  // Two norms before the projection of 2 h to h, one before the head.
  count += layers.multi_token * (3 * norm_parameters(m, m.hidden) + 2 * m.hidden * m.hidden);
  if (slice.embedding) {
    count += m.vocabulary * m.hidden;
    if (m.positions == Positions::kLearned) {
      count += m.positions_max.value_or(m.sequence) * m.hidden;
    }
    if (m.embedding_norm.value_or(false)) count += norm_parameters(m, m.hidden);
  }
  if (slice.head) {
    count += norm_parameters(m, m.hidden);
    if (!m.tied_embeddings || !slice.embedding) count += m.vocabulary * m.hidden;
    if (m.head_bias.value_or(false)) count += m.vocabulary;
    const bool copies_embedding = layers.multi_token > 0 && !slice.embedding && !m.tied_embeddings;
    if (copies_embedding) count += m.vocabulary * m.hidden;
  }
  return count;
}

int64_t parameters(const Model& m) { return parameters(m, Slice{0, m.layers, true, true}); }

int64_t active_parameters(const Model& m) {
  if (!m.experts) return parameters(m);
  CHECK(m.experts->per_token <= m.experts->count, "a token meets {} of {} experts",
        m.experts->per_token, m.experts->count);
  const Slice whole{0, m.layers, true, true};
  const int64_t idle = (m.experts->count - m.experts->per_token) * expert(m);
  return parameters(m) - count_layers(m, whole).experts * idle;
}

std::string departure(const Model& m) {
  if (m.experts) {
    const Experts& e = *m.experts;
    // Its weight would be 1 whatever its score, and the router would learn nothing.
    if (e.per_token == 1 && e.count > 1) return "experts.per_token = 1";
    if (e.bias) return "experts.bias = true";
    if (e.score_bias) return "experts.score_bias = true";
  }
  if (m.latent_attention) {
    return fmt::format("latent_attention.kv_rank = {}", m.latent_attention->kv_rank);
  }
  if (m.multi_token_layers.value_or(0) > 0) {
    return fmt::format("multi_token_layers = {}", *m.multi_token_layers);
  }
  if (m.linear_attention) {
    return fmt::format("linear_attention.every = {}", m.linear_attention->every);
  }
  if (m.activation == Activation::kSquaredRelu) {
    return fmt::format("activation = {}", to_name(m.activation));
  }
  if (m.positions == Positions::kAlibi) return "positions = alibi";
  if (m.norm == Norm::kLayer && !m.norm_bias.value_or(true)) return "norm_bias = false";
  const std::pair<const char*, std::optional<bool>> more[] = {
      {"parallel_residual", m.parallel_residual},
      {"attention_sinks", m.attention_sinks},
      {"attention_gate", m.attention_gate},
      {"head_bias", m.head_bias},
      {"embedding_norm", m.embedding_norm}};
  for (const auto& [name, given] : more) {
    if (given.value_or(false)) return fmt::format("{} = true", name);
  }
  if (m.rotary_share.value_or(1) != 1) return fmt::format("rotary_share = {}", *m.rotary_share);
  if (m.window_rope_theta) return fmt::format("window_rope_theta = {}", *m.window_rope_theta);
  return "";
}

}  // namespace tombolo::model
