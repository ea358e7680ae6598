// What a model computes, keeps and sends; model.cc counts its parameters.
#include "base/check.h"
#include "spec/model/model.h"

namespace tombolo::model {
namespace {

double tokens_of(const Model& m, int64_t samples) {
  CHECK(samples >= 1, "work on {} samples", samples);
  return real(samples) * real(m.sequence);
}

// Widths of the MLP that one token meets in a layer with experts, and with none.
double active_width(const Model& m, bool experts) {
  if (!experts) return real(m.ffn);
  return real(m.experts->per_token * m.experts->ffn + m.experts->shared_ffn);
}

// Elements of the matrices that one token meets in attention.
double attention_matrices(const Model& m) {
  const double h = real(m.hidden);
  if (!m.latent_attention) {
    const double attention = real(m.attention_width());
    const double qkv = real(m.query_width()) + 2 * real(m.kv_heads * m.head_size());
    return h * (qkv + attention);
  }
  const LatentAttention& l = *m.latent_attention;
  const double queries = real(m.heads * (l.nope_dim + l.rope_dim));
  const double rank = real(l.query_rank);
  const double down_up = l.query_rank > 0 ? rank * (h + queries) : h * queries;
  return down_up + h * real(l.kv_rank + l.rope_dim) +
         real(l.kv_rank) * real(m.heads * (l.nope_dim + l.value_dim)) +
         real(m.heads * l.value_dim) * h;
}

// The same of linear attention.
double linear_matrices(const Model& m) {
  const LinearAttention& l = *m.linear_attention;
  const int64_t projected = l.mixed_width() + l.value_width() + 2 * l.value_heads;
  return real(m.hidden) * real(projected + l.value_width()) + real(l.mixed_width() * l.kernel);
}

// Of each token with the states: what they hold of its key, what it adds, what its query reads.
double state_products(const Model& m) {
  const LinearAttention& l = *m.linear_attention;
  return 3 * real(l.key_dim) * real(l.value_width());
}

// Query and value numbers of all heads: the products with keys and with values take as many
// multiply-adds for each token that is attended to.
double score_widths(const Model& m) {
  if (!m.latent_attention) return 2 * real(m.attention_width());
  const LatentAttention& l = *m.latent_attention;
  return real(m.heads * (l.nope_dim + l.rope_dim + l.value_dim));
}

}  // namespace

Flops score_flops(const Model& m, const Slice& slice, int64_t samples) {
  const LayerCounts layers = count_layers(m, slice);
  const double tokens = tokens_of(m, samples);
  const double layer = 2 * tokens * real(m.sequence) * score_widths(m);
  const int64_t whole = layers.dense + layers.experts - layers.linear - layers.windowed;
  return {(real(whole) + real(layers.windowed) * m.window_share()) * layer};
}

Flops forward_flops(const Model& m, const Slice& slice, int64_t samples) {
  const LayerCounts layers = count_layers(m, slice);
  const double tokens = tokens_of(m, samples);
  const double h = real(m.hidden);
  const double matrices = real(mlp_matrices(m));
  const double scores = 2 * tokens * real(m.sequence) * score_widths(m);
  const double attention = 2 * tokens * attention_matrices(m) + scores;
  const double dense = attention + 2 * tokens * h * active_width(m, false) * matrices;
  double flops = real(layers.dense) * dense;
  if (layers.experts > 0) {
    const Experts& e = *m.experts;
    const double gates = real(e.count) + (e.shared_gate ? 1 : 0);
    flops += real(layers.experts) *
             (attention + 2 * tokens * h * (active_width(m, true) * matrices + gates));
  }
  if (layers.linear > 0) {
    const double instead = 2 * tokens * (linear_matrices(m) + state_products(m));
    flops += real(layers.linear) * (instead - attention);
  }
  if (layers.windowed > 0) flops -= real(layers.windowed) * (1 - m.window_share()) * scores;
  flops += real(layers.multi_token) * 2 * tokens * 2 * h * h;
  if (slice.head) {
    flops += real(1 + layers.multi_token) * 2 * tokens * h * real(m.vocabulary);
  }
  return {flops};
}

Bytes activation_bytes(const Model& m, const Slice& slice, int64_t samples, double element_bytes,
                       Recompute recompute) {
  CHECK(element_bytes > 0, "activations of {} bytes each", element_bytes);
  const LayerCounts layers = count_layers(m, slice);
  const double tokens = tokens_of(m, samples);
  const double h = real(m.hidden);
  const double kept_whole = real(layers.dense + layers.experts);
  double bytes = 0;
  if (recompute == Recompute::kFull) {
    bytes = kept_whole * 2 * tokens * h;
  } else {
    double dense = 34 * tokens * h;
    if (m.latent_attention) {
      // In place of queries, keys, values and the input of the projection, 8 h.
      const LatentAttention& l = *m.latent_attention;
      const double heads = 2 * real(m.heads * (l.nope_dim + l.rope_dim + l.value_dim));
      const double compressed = 2 * real(l.query_rank + l.kv_rank);  // before, after a norm
      dense += tokens * (2 * (heads + compressed) - 8 * h);
    }
    if (recompute == Recompute::kNone) {
      dense += 5 * real(m.heads) * tokens * real(m.sequence);
    }
    bytes = kept_whole * dense;
    if (layers.linear > 0) {
      // Before and after the convolution, the gate and the states' output, in place of queries,
      // keys, values and the input of the projection, 8 h; and no scores.
      const LinearAttention& l = *m.linear_attention;
      double instead = 2 * real(2 * l.mixed_width() + 2 * l.value_width()) - 8 * h;
      if (recompute == Recompute::kNone) instead -= 5 * real(m.heads) * real(m.sequence);
      bytes += real(layers.linear) * tokens * instead;
    }
    if (layers.experts > 0) {
      const double inside = 2 * real(mlp_matrices(m)) * active_width(m, true);
      const double copies = 2 * real(m.experts->per_token) * h;
      bytes += real(layers.experts) * tokens * (inside + copies - 16 * h);
    }
  }
  bytes *= element_bytes / 2;
  if (slice.head) {
    bytes += 4 * real(1 + layers.multi_token) * tokens * real(m.vocabulary);
  }
  return {bytes};
}

Bytes boundary_bytes(const Model& m, int64_t samples, double element_bytes) {
  CHECK(element_bytes > 0, "a boundary of {} bytes each", element_bytes);
  return {tokens_of(m, samples) * real(m.hidden) * element_bytes};
}

}  // namespace tombolo::model
