// The operations between a decoder's matrix products, from LibTorch's own: autograd knows their
// gradients, and they run wherever the tensors are. Activations in bfloat16 are computed in float32
// between (mixed_operations.h); then weights of norms and the tables are float32.
#pragma once

#include <cstdint>
#include <optional>

#include "perform/train/torch_compat.h"
#include "spec/model/model.h"

namespace tombolo::train {

// x / sqrt(mean(x^2) + epsilon) * weight, per row. Zhang & Sennrich 2019, equation 4.
// x: [rows, columns]
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

// silu(gate) * up, with silu(a) = a / (1 + exp(-a)). Shazeer 2020.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

// gelu(gate) * up, with GPT-2's approximation of gelu by tanh, which Gemma has.
at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up);

// cap * tanh(x / cap): Gemma 2's limit of scores and logits. bfloat16 becomes float32.
at::Tensor soft_cap(const at::Tensor& x, double cap);

// What attention makes of products of queries and keys.
struct Scores {
  double scale = 1;                    // times this,
  std::optional<double> softcap = {};  // then through soft_cap
};

struct AttentionShape {
  int64_t samples = 0;
  int64_t sequence = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  std::optional<double> query_scalar = {};  // left out: head_size
  std::optional<double> softcap = {};

  Scores scores() const;
};

// What does not change from one microbatch to the next.
struct AttentionTables {
  at::Tensor cosine,
      sine;         // [sequence, head_size / 2]; undefined: queries and keys are not rotated
  at::Tensor mask;  // [sequence, sequence]: 0 where a row may look, -infinity elsewhere
};

// 0 up to the diagonal, and -infinity above it and `window` or more below.
at::Tensor causal_mask(int64_t sequence, std::optional<int64_t> window, at::ScalarType type);

struct RotaryPositions {
  double theta = 10000;
  std::optional<model::RopeScaling> scaling = {};
};

// `positions` left out: queries and keys are not rotated.
AttentionTables attention_tables(const AttentionShape& shape,
                                 const std::optional<RotaryPositions>& positions,
                                 at::ScalarType type);

// Of `count` positions from `first` on, in float32; without a mask.
AttentionTables rotary_tables(const RotaryPositions& positions, int64_t head_size, int64_t first,
                              int64_t count);

// x: [..., positions, head_size], as the tables say; as it is where they have no angles.
at::Tensor rotate(const at::Tensor& x, const AttentionTables& tables);

// Attention of some rows that follow others of the same sample, forward only:
//
//   out_i = sum_{j <= past + i} softmax_j(q_i k_j / sqrt(head_size)) v_j
//
// and of those j the last `window` alone. query: [rows, heads * head_size], rotated; key, value:
// [past + rows, kv_heads * head_size], keys rotated, the last `rows` of them those of the query.
// Rows are taken some at a time, each with the keys that it may see, so that scores take no more
// than 64 MiB or those of one row. Of `shape` samples and sequence are not read.
at::Tensor attend_back(const AttentionShape& shape, std::optional<int64_t> window,
                       const at::Tensor& query, const at::Tensor& key, const at::Tensor& value);

// Of rows that see keys as the mask [rows, keys] says, queries and keys rotated. query: [samples, heads,
// rows, head_size]; key, value: [samples, kv_heads, keys, head_size], any strides. Returns [samples, rows,
// heads * head_size]. Of `shape` sequence is not read.
at::Tensor attend(const AttentionShape& shape, const at::Tensor& mask, const at::Tensor& query,
                  const at::Tensor& key, const at::Tensor& value);

// Causal attention with grouped queries: query head i reads key and value head i / (heads /
// kv_heads). Rotary positions (Su et al. 2021) turn element i with i + head_size / 2 by position *
// theta^(-2 i / head_size), as Llama's published weights do.
//
//   out_i = sum_{j <= i} softmax_j(q_i k_j / sqrt(head_size)) v_j
//
// with what shape.scores() and the mask make of it. query: [samples * sequence, heads * head_size];
// key, value: kv_heads instead. Returns the shape
// of query. The queries that share a key head are rows of one matrix product, so keys and values
// are never copied. Scores take samples * heads * sequence^2 elements, kept for the backward pass.
at::Tensor causal_attention(const AttentionShape& shape, const AttentionTables& tables,
                            const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value);

}  // namespace tombolo::train
