// The fused operations of cpu_ops.h and attention.h as differentiable operations on tensors.
//
// All tensors are contiguous, on the CPU, float or double alike.
#pragma once

#include "train/attention.h"
#include "train/torch_compat.h"

namespace tombolo::train {

// x: [rows, columns]
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

// gate and up: the same shape
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

// query: [samples * sequence, heads * head_size]; key, value: kv_heads instead. cosine and sine:
// [sequence, head_size / 2], empty for no rotation. Returns the shape of query.
at::Tensor causal_attention(const AttentionShape& shape, const at::Tensor& query,
                            const at::Tensor& key, const at::Tensor& value,
                            const at::Tensor& cosine, const at::Tensor& sine);

}  // namespace tombolo::train
