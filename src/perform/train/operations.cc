#include "perform/train/operations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "perform/train/mixed_operations.h"

namespace tombolo::train {
namespace {

bool is_bf16(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16; }

// Angles per token, stretched as Llama 3.1 does (model::RopeScaling).
at::Tensor stretched(const at::Tensor& frequency, const model::RopeScaling& r) {
  const at::Tensor turns =
      frequency * (static_cast<double>(r.first_sequence) / (2 * std::numbers::pi));
  const at::Tensor kept =
      ((turns - r.low_frequency_factor) / (r.high_frequency_factor - r.low_frequency_factor))
          .clamp(0, 1);
  return frequency * (kept + (1 - kept) / r.factor);
}

void fill_angles(AttentionTables& tables, const RotaryPositions& positions, int64_t head_size,
                 const at::Tensor& at_positions, at::ScalarType type) {
  const at::Tensor pair = at::arange(head_size / 2, at::kDouble);
  at::Tensor frequency =
      at::exp(pair * (-2.0 * std::log(positions.theta) / static_cast<double>(head_size)));
  if (positions.scaling) frequency = stretched(frequency, *positions.scaling);
  const at::Tensor angle = at::outer(at_positions, frequency);
  tables.cosine = at::cos(angle).to(type);
  tables.sine = at::sin(angle).to(type);
}

// -infinity where row i of some, the last of which is the last of the keys, may not look.
at::Tensor forbidden(int64_t rows, int64_t keys, std::optional<int64_t> window,
                     const at::TensorOptions& options) {
  const double infinity = std::numeric_limits<double>::infinity();
  const int64_t first = keys - rows;  // the key of row 0 itself
  const at::Tensor all = at::full({rows, keys}, -infinity, options);
  const at::Tensor later = all.triu(first + 1);
  return window && *window < keys ? later + all.tril(first - *window) : later;
}

// attend_back() of rows whose scores fit. [rows, heads * head_size] -> the same.
at::Tensor attend_rows(const AttentionShape& shape, std::optional<int64_t> window,
                       const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  const int64_t heads = shape.heads, kv_heads = shape.kv_heads, size = shape.head_size;
  const int64_t rows = query.size(0), seen = key.size(0), shared = heads / kv_heads;
  const Scores rule = shape.scores();
  const at::Tensor q = (query.view({rows, heads, size}).transpose(0, 1) * rule.scale)
                           .reshape({kv_heads, shared * rows, size});
  const at::Tensor k = key.view({seen, kv_heads, size}).permute({1, 2, 0});
  const at::Tensor v = value.view({seen, kv_heads, size}).transpose(0, 1);
  at::Tensor scores = at::bmm(q, k).view({kv_heads, shared, rows, seen});
  if (rule.softcap) scores = soft_cap(scores, *rule.softcap);
  if (rows > 1) scores = scores + forbidden(rows, seen, window, query.options());
  const at::Tensor weights = at::softmax(scores, -1).view({kv_heads, shared * rows, seen});
  return at::bmm(weights, v)
      .view({heads, rows, size})
      .transpose(0, 1)
      .reshape({rows, heads * size});
}

}  // namespace

at::Tensor rotate(const at::Tensor& x, const AttentionTables& tables) {
  if (!tables.cosine.defined()) return x;
  if (is_bf16(x)) return mixed::rotate(x, tables.cosine, tables.sine);
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  return at::cat({halves[0] * tables.cosine - halves[1] * tables.sine,
                  halves[1] * tables.cosine + halves[0] * tables.sine},
                 -1);
}

AttentionTables rotary_tables(const RotaryPositions& positions, int64_t head_size, int64_t first,
                              int64_t count) {
  AttentionTables tables;
  fill_angles(tables, positions, head_size, at::arange(first, first + count, at::kDouble),
              at::kFloat);
  return tables;
}

Scores AttentionShape::scores() const {
  return {.scale = 1 / std::sqrt(query_scalar.value_or(static_cast<double>(head_size))),
          .softcap = softcap};
}

at::Tensor attend_back(const AttentionShape& shape, std::optional<int64_t> window,
                       const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  constexpr int64_t kScoresMax = (int64_t{64} << 20) / 4;
  const int64_t rows = query.size(0), past = key.size(0) - rows;
  const auto part = [&](int64_t begin, int64_t end) {
    const int64_t first = window ? std::max<int64_t>(0, past + begin + 1 - *window) : 0;
    return attend_rows(shape, window, query.slice(0, begin, end), key.slice(0, first, past + end),
                       value.slice(0, first, past + end));
  };
  const int64_t each = std::max<int64_t>(1, kScoresMax / (shape.heads * key.size(0)));
  if (each >= rows) return part(0, rows);
  at::Tensor out = at::empty_like(query);
  for (int64_t begin = 0; begin < rows; begin += each) {
    const int64_t end = std::min(begin + each, rows);
    out.slice(0, begin, end).copy_(part(begin, end));
  }
  return out;
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  if (is_bf16(x)) return mixed::rms_norm(x, weight, epsilon);
  return x * at::rsqrt(x.square().mean(-1, true) + epsilon) * weight;
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return is_bf16(gate) ? mixed::swiglu(gate, up) : at::silu(gate) * up;
}

at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up) {
  return is_bf16(gate) ? mixed::geglu(gate, up) : at::gelu(gate, "tanh") * up;
}

at::Tensor soft_cap(const at::Tensor& x, double cap) {
  return at::tanh((is_bf16(x) ? x.to(at::kFloat) : x) / cap) * cap;
}

at::Tensor causal_mask(int64_t sequence, std::optional<int64_t> window, at::ScalarType type) {
  return forbidden(sequence, sequence, window, at::dtype(type));
}

AttentionTables attention_tables(const AttentionShape& shape,
                                 const std::optional<RotaryPositions>& positions,
                                 at::ScalarType type) {
  AttentionTables tables;
  tables.mask = causal_mask(shape.sequence, std::nullopt, type);
  if (positions) {
    fill_angles(tables, *positions, shape.head_size, at::arange(shape.sequence, at::kDouble), type);
  }
  return tables;
}

at::Tensor attend(const AttentionShape& s, const at::Tensor& mask, const at::Tensor& query,
                  const at::Tensor& key, const at::Tensor& value) {
  const int64_t groups = s.samples * s.kv_heads;
  const int64_t shared = s.heads / s.kv_heads;  // query heads per key head
  const int64_t rows = query.size(2), keys = key.size(2);
  const Scores rule = s.scores();
  // bfloat16 scales in softmax, in float32.
  const at::Tensor q =
      (is_bf16(query) ? query : query * rule.scale).reshape({groups, shared * rows, s.head_size});
  const at::Tensor k = key.reshape({groups, keys, s.head_size});
  const at::Tensor v = value.reshape({groups, keys, s.head_size});
  at::Tensor scores = at::bmm(q, k.transpose(1, 2)).view({groups, shared, rows, keys});
  if (rule.softcap && !is_bf16(query)) scores = soft_cap(scores, *rule.softcap);
  const at::Tensor weights =
      (is_bf16(query) ? mixed::masked_softmax(scores, mask, rule) : at::softmax(scores + mask, -1))
          .view({groups, shared * rows, keys});
  return at::bmm(weights, v)
      .view({s.samples, s.heads, rows, s.head_size})
      .transpose(1, 2)
      .reshape({s.samples, rows, s.heads * s.head_size});
}

at::Tensor causal_attention(const AttentionShape& s, const AttentionTables& tables,
                            const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value) {
  const auto by_head = [&](const at::Tensor& x, int64_t heads) {
    return x.view({s.samples, s.sequence, heads, s.head_size}).transpose(1, 2);
  };
  return attend(s, tables.mask, rotate(by_head(query, s.heads), tables),
                rotate(by_head(key, s.kv_heads), tables), by_head(value, s.kv_heads))
      .view({s.samples * s.sequence, s.heads * s.head_size});
}

}  // namespace tombolo::train
