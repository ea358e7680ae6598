// Arithmetic that compilers can vectorise without -ffast-math, the same bits at every vector width.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tombolo::train {

#define TOMBOLO_INLINE inline __attribute__((always_inline))  // into each version of its caller

// exp for |x| <= 87, beyond which x is taken as +-87; NaN stays NaN. Relative error below 2e-7:
// exp(x) = 2^n exp(r), n = round(x / ln 2), and a polynomial for |r| <= ln 2 / 2 (Cephes, expf).
TOMBOLO_INLINE float vector_exp(float x) {
  x = x > 87.0f ? 87.0f : x;
  x = x < -87.0f ? -87.0f : x;
  // Adding 1.5 x 2^23 rounds to an integer, which then stands in the low bits of the sum.
  const float shifted = x * 1.44269504088896341f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) << 23;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + exponent);
}
TOMBOLO_INLINE double vector_exp(double x) { return std::exp(x); }

// sum of f(0) ... f(size - 1), in 16 interleaved partial sums.
template <class T, class Function>
TOMBOLO_INLINE T vector_sum(int64_t size, Function f) {
  constexpr int64_t kLanes = 16;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += f(i + lane);
  }
  T sum = 0;
  for (const T lane : lanes) sum += lane;
  for (; i < size; ++i) sum += f(i);
  return sum;
}

// max of values[0] ... values[size - 1]; size > 0.
template <class T>
TOMBOLO_INLINE T vector_max(int64_t size, const T* values) {
  constexpr int64_t kLanes = 16;
  T lanes[kLanes];
  for (T& lane : lanes) lane = values[0];
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
    }
  }
  T max = values[0];
  for (const T lane : lanes) max = lane > max ? lane : max;
  for (; i < size; ++i) max = values[i] > max ? values[i] : max;
  return max;
}

}  // namespace tombolo::train
