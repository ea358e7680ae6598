// The operations between matrix products for activations in bfloat16.
//
// Each reads and writes bfloat16, computes in float32 between, and keeps for its backward pass what
// it read, in bfloat16: composed of LibTorch's operators, autograd would keep the float32 numbers
// between them. Which are computed in float32 is what PyTorch's autocast and Megatron-LM do: norms,
// softmax, activation functions, rotations, the loss. All run wherever the tensors are.
#pragma once

#include "perform/train/operations.h"
#include "perform/train/torch_compat.h"

namespace tombolo::train::mixed {

// As rms_norm (operations.h). weight: float32.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

// As swiglu and geglu.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up);

// Element i of the last dimension turns with i + size / 2. x: [samples, heads, sequence, size] with
// any strides; cosine, sine: float32 [sequence, size / 2]. The result is contiguous.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine);

// softmax(rule(scores) + mask) over the last dimension. mask: float32.
at::Tensor masked_softmax(const at::Tensor& scores, const at::Tensor& mask, const Scores& rule);

}  // namespace tombolo::train::mixed
