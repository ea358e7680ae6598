// The operations of a transformer layer that are not matrix products, fused, on one CPU core.
//
// LibTorch's own operators stream each intermediate result through memory: an RMSNorm is five
// passes forward and a dozen backward. Here each operation is one pass each way. Matrices are
// row-major and contiguous. T is float or double; double is for checking gradients. attention.h
// does the same for attention.
#pragma once

#include <cstdint>

namespace tombolo::train {

// y = x / sqrt(mean(x^2) + epsilon) * weight, per row. Zhang & Sennrich 2019, equation 4.
// inverse_rms, one per row, is for the backward pass.
template <class T>
void rms_norm_forward(int64_t rows, int64_t columns, const T* x, const T* weight, double epsilon,
                      T* y, T* inverse_rms);
// weight_gradient is overwritten.
template <class T>
void rms_norm_backward(int64_t rows, int64_t columns, const T* y_gradient, const T* x,
                       const T* weight, const T* inverse_rms, T* x_gradient, T* weight_gradient);

// y = silu(gate) * up, with silu(a) = a / (1 + exp(-a)). Shazeer 2020.
template <class T>
void swiglu_forward(int64_t size, const T* gate, const T* up, T* y);
template <class T>
void swiglu_backward(int64_t size, const T* y_gradient, const T* gate, const T* up,
                     T* gate_gradient, T* up_gradient);

}  // namespace tombolo::train
