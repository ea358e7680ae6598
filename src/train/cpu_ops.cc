#include "train/cpu_ops.h"

#include <algorithm>
#include <cmath>

#include "train/vector_code.h"
#include "train/vector_math.h"

namespace tombolo::train {
namespace {

template <class T>
TOMBOLO_INLINE void norm_forward(int64_t rows, int64_t columns, const T* x, const T* weight,
                                 double epsilon, T* y, T* inverse_rms) {
  for (int64_t row = 0; row < rows; ++row, x += columns, y += columns) {
    const T squares = vector_sum<T>(columns, [=](int64_t i) { return x[i] * x[i]; });
    const T mean = squares / static_cast<T>(columns);
    const T inverse = T{1} / std::sqrt(mean + static_cast<T>(epsilon));
    for (int64_t i = 0; i < columns; ++i) y[i] = x[i] * inverse * weight[i];
    inverse_rms[row] = inverse;
  }
}

// With r = 1 / rms(x) and g = dy * w:  dx = r g - x r^3 / n sum_j(g_j x_j),  dw = sum over rows of
// dy x r.
template <class T>
TOMBOLO_INLINE void norm_backward(int64_t rows, int64_t columns, const T* dy, const T* x,
                                  const T* weight, const T* inverse_rms, T* dx, T* dweight) {
  std::fill(dweight, dweight + columns, T{0});
  for (int64_t row = 0; row < rows; ++row, x += columns, dy += columns, dx += columns) {
    const T r = inverse_rms[row];
    const T along = vector_sum<T>(columns, [=](int64_t i) { return dy[i] * weight[i] * x[i]; });
    const T back = along * r * r * r / static_cast<T>(columns);
    for (int64_t i = 0; i < columns; ++i) {
      dx[i] = r * dy[i] * weight[i] - back * x[i];
      dweight[i] += dy[i] * x[i] * r;
    }
  }
}

template <class T>
TOMBOLO_INLINE void gate_forward(int64_t size, const T* gate, const T* up, T* y) {
  for (int64_t i = 0; i < size; ++i) y[i] = gate[i] / (T{1} + vector_exp(-gate[i])) * up[i];
}

// silu'(a) = s (1 + a (1 - s)) with s = 1 / (1 + exp(-a)).
template <class T>
TOMBOLO_INLINE void gate_backward(int64_t size, const T* dy, const T* gate, const T* up, T* dgate,
                                  T* dup) {
  for (int64_t i = 0; i < size; ++i) {
    const T s = T{1} / (T{1} + vector_exp(-gate[i]));
    dup[i] = dy[i] * gate[i] * s;
    dgate[i] = dy[i] * up[i] * s * (T{1} + gate[i] * (T{1} - s));
  }
}

}  // namespace

template <>
TOMBOLO_VECTOR_CODE void rms_norm_forward(int64_t rows, int64_t columns, const float* x,
                                          const float* weight, double epsilon, float* y,
                                          float* inverse_rms) {
  norm_forward(rows, columns, x, weight, epsilon, y, inverse_rms);
}
template <>
void rms_norm_forward(int64_t rows, int64_t columns, const double* x, const double* weight,
                      double epsilon, double* y, double* inverse_rms) {
  norm_forward(rows, columns, x, weight, epsilon, y, inverse_rms);
}

template <>
TOMBOLO_VECTOR_CODE void rms_norm_backward(int64_t rows, int64_t columns, const float* dy,
                                           const float* x, const float* weight,
                                           const float* inverse_rms, float* dx, float* dweight) {
  norm_backward(rows, columns, dy, x, weight, inverse_rms, dx, dweight);
}
template <>
void rms_norm_backward(int64_t rows, int64_t columns, const double* dy, const double* x,
                       const double* weight, const double* inverse_rms, double* dx,
                       double* dweight) {
  norm_backward(rows, columns, dy, x, weight, inverse_rms, dx, dweight);
}

template <>
TOMBOLO_VECTOR_CODE void swiglu_forward(int64_t size, const float* gate, const float* up,
                                        float* y) {
  gate_forward(size, gate, up, y);
}
template <>
void swiglu_forward(int64_t size, const double* gate, const double* up, double* y) {
  gate_forward(size, gate, up, y);
}

template <>
TOMBOLO_VECTOR_CODE void swiglu_backward(int64_t size, const float* dy, const float* gate,
                                         const float* up, float* dgate, float* dup) {
  gate_backward(size, dy, gate, up, dgate, dup);
}
template <>
void swiglu_backward(int64_t size, const double* dy, const double* gate, const double* up,
                     double* dgate, double* dup) {
  gate_backward(size, dy, gate, up, dgate, dup);
}

}  // namespace tombolo::train
