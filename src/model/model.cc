#include "model/model.h"

namespace tombolo::model {
namespace {

double as_double(int64_t n) { return static_cast<double>(n); }

int64_t layer_parameters(const Model& m) {
  const int64_t kv = m.kv_heads * m.head_size();
  const int64_t qkv = m.attention_width() + 2 * kv;
  const int64_t attention = m.hidden * qkv + m.attention_width() * m.hidden;
  const int64_t matrices = m.activation == Activation::kSwiglu ? 3 : 2;
  const int64_t mlp = matrices * m.hidden * m.ffn;
  const int64_t norms = 2 * m.hidden * (m.norm == Norm::kLayer ? 2 : 1);
  int64_t biases = 0;
  if (m.qkv_bias.value_or(m.bias)) biases += qkv;
  if (m.output_bias.value_or(m.bias)) biases += m.hidden;
  if (m.mlp_bias.value_or(m.bias)) biases += (matrices - 1) * m.ffn + m.hidden;
  return attention + mlp + norms + biases;
}

}  // namespace

int64_t parameters(const Model& m, const Slice& slice) {
  int64_t count = slice.layers * layer_parameters(m);
  if (slice.embedding) {
    count += m.vocabulary * m.hidden;
    if (m.positions == Positions::kLearned) {
      count += m.positions_max.value_or(m.sequence) * m.hidden;
    }
  }
  if (slice.head) {
    count += m.hidden * (m.norm == Norm::kLayer ? 2 : 1);
    if (!m.tied_embeddings || !slice.embedding) count += m.vocabulary * m.hidden;
  }
  return count;
}

std::string departure(const Model& m) {
  if (m.head_dim && (m.hidden % m.heads != 0 || *m.head_dim != m.hidden / m.heads)) {
    return fmt::format("head_dim = {}", *m.head_dim);
  }
  const std::pair<const char*, std::optional<bool>> biases[] = {
      {"qkv_bias", m.qkv_bias}, {"output_bias", m.output_bias}, {"mlp_bias", m.mlp_bias}};
  for (const auto& [name, given] : biases) {
    if (given && *given != m.bias) return fmt::format("{} = {}", name, *given);
  }
  if (m.positions == Positions::kLearned && m.positions_max.value_or(m.sequence) != m.sequence) {
    return fmt::format("positions_max = {}", *m.positions_max);
  }
  if (m.parallel_residual.value_or(false)) return "parallel_residual = true";
  return "";
}

int64_t parameters(const Model& m) { return parameters(m, Slice{0, m.layers, true, true}); }

Flops forward_flops(const Model& m, const Slice& slice, int64_t samples) {
  const double tokens = as_double(samples) * as_double(m.sequence);
  const double h = as_double(m.hidden);
  const double attention = as_double(m.attention_width());
  const double qkv = attention + 2 * as_double(m.kv_heads * m.head_size());
  const double matrices = m.activation == Activation::kSwiglu ? 3 : 2;
  const double layer = 2 * tokens * h * (qkv + attention) +
                       4 * tokens * as_double(m.sequence) * attention +
                       2 * tokens * h * as_double(m.ffn) * matrices;
  const double head = slice.head ? 2 * tokens * h * as_double(m.vocabulary) : 0;
  return {as_double(slice.layers) * layer + head};
}

Bytes activation_bytes(const Model& m, const Slice& slice, int64_t samples, double element_bytes,
                       Recompute recompute) {
  const double elements = as_double(samples) * as_double(m.sequence) * as_double(m.hidden);
  double per_layer = 34 * elements;
  if (recompute == Recompute::kNone) {
    per_layer +=
        5 * as_double(m.heads) * as_double(samples) * as_double(m.sequence) * as_double(m.sequence);
  } else if (recompute == Recompute::kFull) {
    per_layer = 2 * elements;
  }
  double bytes = per_layer * as_double(slice.layers) * element_bytes / 2;
  if (slice.head) bytes += 4 * as_double(samples * m.sequence) * as_double(m.vocabulary);
  return {bytes};
}

Bytes boundary_bytes(const Model& m, int64_t samples, double element_bytes) {
  return {as_double(samples) * as_double(m.sequence) * as_double(m.hidden) * element_bytes};
}

}  // namespace tombolo::model
