// What a model computes, keeps and sends; model.cc counts its parameters.
#include "base/check.h"
#include "spec/model/model.h"

namespace tombolo::model {
namespace {

double as_double(int64_t n) { return static_cast<double>(n); }

double tokens_of(const Model& m, int64_t samples) {
  CHECK(samples >= 1, "work on {} samples", samples);
  return as_double(samples) * as_double(m.sequence);
}

// Widths of the MLP that one token meets in a layer with experts, and with none.
double active_width(const Model& m, bool experts) {
  if (!experts) return as_double(m.ffn);
  return as_double(m.experts->per_token * m.experts->ffn + m.experts->shared_ffn);
}

// Elements of the matrices that one token meets in attention.
double attention_matrices(const Model& m) {
  const double h = as_double(m.hidden);
  if (!m.latent_attention) {
    const double attention = as_double(m.attention_width());
    const double qkv = attention + 2 * as_double(m.kv_heads * m.head_size());
    return h * (qkv + attention);
  }
  const LatentAttention& l = *m.latent_attention;
  const double queries = as_double(m.heads * (l.nope_dim + l.rope_dim));
  const double rank = as_double(l.query_rank);
  const double down_up = l.query_rank > 0 ? rank * (h + queries) : h * queries;
  return down_up + h * as_double(l.kv_rank + l.rope_dim) +
         as_double(l.kv_rank) * as_double(m.heads * (l.nope_dim + l.value_dim)) +
         as_double(m.heads * l.value_dim) * h;
}

// Query and value numbers of all heads: the products with keys and with values take as many
// multiply-adds for each token that is attended to.
double score_widths(const Model& m) {
  if (!m.latent_attention) return 2 * as_double(m.attention_width());
  const LatentAttention& l = *m.latent_attention;
  return as_double(m.heads * (l.nope_dim + l.rope_dim + l.value_dim));
}

}  // namespace

Flops score_flops(const Model& m, const Slice& slice, int64_t samples) {
  const LayerCounts layers = count_layers(m, slice);
  const double tokens = tokens_of(m, samples);
  const double layer = 2 * tokens * as_double(m.sequence) * score_widths(m);
  return {as_double(layers.dense + layers.experts) * layer};
}

Flops forward_flops(const Model& m, const Slice& slice, int64_t samples) {
  const LayerCounts layers = count_layers(m, slice);
  const double tokens = tokens_of(m, samples);
  const double h = as_double(m.hidden);
  const double matrices = as_double(mlp_matrices(m));
  const double attention =
      2 * tokens * attention_matrices(m) + 2 * tokens * as_double(m.sequence) * score_widths(m);
  const double dense = attention + 2 * tokens * h * active_width(m, false) * matrices;
  double flops = as_double(layers.dense) * dense;
  if (layers.experts > 0) {
    const Experts& e = *m.experts;
    const double gates = as_double(e.count) + (e.shared_gate ? 1 : 0);
    flops += as_double(layers.experts) *
             (attention + 2 * tokens * h * (active_width(m, true) * matrices + gates));
  }
  flops += as_double(layers.multi_token) * 2 * tokens * 2 * h * h;
  if (slice.head) {
    flops += as_double(1 + layers.multi_token) * 2 * tokens * h * as_double(m.vocabulary);
  }
  return {flops};
}

Bytes activation_bytes(const Model& m, const Slice& slice, int64_t samples, double element_bytes,
                       Recompute recompute) {
  CHECK(element_bytes > 0, "activations of {} bytes each", element_bytes);
  const LayerCounts layers = count_layers(m, slice);
  const double tokens = tokens_of(m, samples);
  const double h = as_double(m.hidden);
  const double kept_whole = as_double(layers.dense + layers.experts);
  double bytes = 0;
  if (recompute == Recompute::kFull) {
    bytes = kept_whole * 2 * tokens * h;
  } else {
    double dense = 34 * tokens * h;
    if (m.latent_attention) {
      // In place of queries, keys, values and the input of the projection, 8 h.
      const LatentAttention& l = *m.latent_attention;
      const double heads = 2 * as_double(m.heads * (l.nope_dim + l.rope_dim + l.value_dim));
      const double compressed = 2 * as_double(l.query_rank + l.kv_rank);  // before, after a norm
      dense += tokens * (2 * (heads + compressed) - 8 * h);
    }
    if (recompute == Recompute::kNone) {
      dense += 5 * as_double(m.heads) * tokens * as_double(m.sequence);
    }
    bytes = kept_whole * dense;
    if (layers.experts > 0) {
      const double inside = 2 * as_double(mlp_matrices(m)) * active_width(m, true);
      const double copies = 2 * as_double(m.experts->per_token) * h;
      bytes += as_double(layers.experts) * tokens * (inside + copies - 16 * h);
    }
  }
  bytes *= element_bytes / 2;
  if (slice.head) {
    bytes += 4 * as_double(1 + layers.multi_token) * tokens * as_double(m.vocabulary);
  }
  return {bytes};
}

Bytes boundary_bytes(const Model& m, int64_t samples, double element_bytes) {
  CHECK(element_bytes > 0, "a boundary of {} bytes each", element_bytes);
  return {tokens_of(m, samples) * as_double(m.hidden) * element_bytes};
}

}  // namespace tombolo::model
