// Causal attention with grouped queries: query head i reads key and value head i / (heads /
// kv_heads). With `cosine` and `sine`, each sequence x head_size / 2, queries and keys are first
// rotated by their position (Su et al. 2021), pairing element i with i + head_size / 2 as Llama's
// published weights do.
//
//   out_i = sum_{j <= i} softmax_j(q_i k_j / sqrt(head_size)) v_j
//
// Works on kRows queries of one head at a time: their scores against the keys up to the last of
// them stay in cache, keys beyond it are never touched (saves 3/8 of the arithmetic at sequence
// 256), and the backward pass computes the scores again from `log_sum`, as FlashAttention does (Dao
// et al. 2022). Memory beyond inputs and output: one number per query.
#pragma once

#include <cstdint>

namespace tombolo::train {

struct AttentionShape {
  int64_t samples = 0;
  int64_t sequence = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
};

// query and out: [samples, sequence, heads, head_size]; key and value: [samples, sequence,
// kv_heads, head_size]; log_sum: [samples, heads, sequence].
template <class T>
void attention_forward(const AttentionShape& shape, const T* query, const T* key, const T* value,
                       const T* cosine, const T* sine, T* out, T* log_sum);
template <class T>
void attention_backward(const AttentionShape& shape, const T* out_gradient, const T* query,
                        const T* key, const T* value, const T* cosine, const T* sine, const T* out,
                        const T* log_sum, T* query_gradient, T* key_gradient, T* value_gradient);

}  // namespace tombolo::train
