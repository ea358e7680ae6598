#include "train/attention.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "train/vector_code.h"
#include "train/vector_math.h"

extern "C" {
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*,
            const float*, const int*, const float*, const int*, const float*, float*, const int*);
void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*,
            const double*, const int*, const double*, const int*, const double*, double*,
            const int*);
}

namespace tombolo::train {
namespace {

// Queries at a time: 64 x 256 scores are 64 KiB, within the second-level cache; OpenBLAS's kernels
// for small matrices are at their best here (115 GFLOP/s against 90 from 128 on, same core).
constexpr int64_t kRows = 64;

void gemm(const char* a, const char* b, const int* m, const int* n, const int* k, const float* f,
          const float* x, const int* ldx, const float* y, const int* ldy, const float* g, float* z,
          const int* ldz) {
  sgemm_(a, b, m, n, k, f, x, ldx, y, ldy, g, z, ldz);
}
void gemm(const char* a, const char* b, const int* m, const int* n, const int* k, const double* f,
          const double* x, const int* ldx, const double* y, const int* ldy, const double* g,
          double* z, const int* ldz) {
  dgemm_(a, b, m, n, k, f, x, ldx, y, ldy, g, z, ldz);
}

template <class T>
struct Matrix {
  T* data;
  int64_t stride;  // from one row to the next
  bool transposed = false;

  Matrix from_row(int64_t row) const { return {data + row * stride, stride, transposed}; }
  Matrix t() const { return {data, stride, !transposed}; }
};

// c[m, n] = a[m, k] b[k, n] + beta c. BLAS thinks in columns: its transposed view of row-major
// matrices makes c^T = b^T a^T.
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, Matrix<const T> a, Matrix<const T> b, T beta,
              Matrix<T> c) {
  const int im = static_cast<int>(m), in = static_cast<int>(n), ik = static_cast<int>(k);
  const int lda = static_cast<int>(a.stride), ldb = static_cast<int>(b.stride),
            ldc = static_cast<int>(c.stride);
  const T one = 1;
  gemm(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &in, &im, &ik, &one, b.data, &ldb,
       a.data, &lda, &beta, c.data, &ldc);
}

template <class T>
Matrix<const T> constant(Matrix<T> m) {
  return {m.data, m.stride, m.transposed};
}

// to[i] = scale rotate(from[i]) for every position i; direction -1 turns back.
template <class T>
TOMBOLO_INLINE void rotate_rows(int64_t rows, int64_t size, Matrix<const T> from, const T* cosine,
                                const T* sine, T direction, T scale, Matrix<T> to) {
  const int64_t half = size / 2;
  for (int64_t row = 0; row < rows; ++row) {
    const T* x = from.data + row * from.stride;
    T* y = to.data + row * to.stride;
    if (cosine == nullptr) {
      for (int64_t i = 0; i < size; ++i) y[i] = x[i] * scale;
      continue;
    }
    for (int64_t i = 0; i < half; ++i) {
      const T c = cosine[row * half + i];
      const T s = direction * sine[row * half + i];
      const T first = x[i], second = x[i + half];
      y[i] = (first * c - second * s) * scale;
      y[i + half] = (second * c + first * s) * scale;
    }
  }
}

// Rows first .. first + rows - 1 of the scores become exp(score - max), zero beyond the diagonal.
template <class T>
TOMBOLO_INLINE void exponentials(int64_t rows, int64_t first, Matrix<T> scores, T* inverse_sum,
                                 T* log_sum) {
  for (int64_t row = 0; row < rows; ++row) {
    T* s = scores.data + row * scores.stride;
    const int64_t seen = first + row + 1;
    const T max = vector_max(seen, s);
    for (int64_t i = 0; i < seen; ++i) s[i] = vector_exp(s[i] - max);
    const T sum = vector_sum<T>(seen, [=](int64_t i) { return s[i]; });
    std::fill(s + seen, s + first + rows, T{0});
    inverse_sum[row] = T{1} / sum;
    log_sum[first + row] = max + std::log(sum);
  }
}

// scores -> probabilities; p_gradient -> gradient of the scores, p (dp - sum_j p_j dp_j).
template <class T>
TOMBOLO_INLINE void softmax_gradient(int64_t rows, int64_t first, Matrix<T> scores,
                                     Matrix<T> p_gradient, const T* log_sum, const T* along) {
  for (int64_t row = 0; row < rows; ++row) {
    T* p = scores.data + row * scores.stride;
    T* dp = p_gradient.data + row * p_gradient.stride;
    const int64_t seen = first + row + 1;
    const T sum = log_sum[first + row];
    const T mean = along[first + row];
    for (int64_t i = 0; i < seen; ++i) {
      p[i] = vector_exp(p[i] - sum);
      dp[i] = p[i] * (dp[i] - mean);
    }
    std::fill(p + seen, p + first + rows, T{0});
    std::fill(dp + seen, dp + first + rows, T{0});
  }
}

template <class T>
TOMBOLO_INLINE void scale_rows(int64_t rows, int64_t size, const T* factors, Matrix<T> x) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < size; ++i) x.data[row * x.stride + i] *= factors[row];
  }
}

template <class T>
TOMBOLO_INLINE void row_products(int64_t rows, int64_t size, Matrix<const T> a, Matrix<const T> b,
                                 T* out) {
  for (int64_t row = 0; row < rows; ++row) {
    const T* x = a.data + row * a.stride;
    const T* y = b.data + row * b.stride;
    out[row] = vector_sum<T>(size, [=](int64_t i) { return x[i] * y[i]; });
  }
}

// What one head of one sample needs besides its inputs.
template <class T>
struct Workspace {
  explicit Workspace(const AttentionShape& shape)
      : vectors(shape.sequence * shape.head_size),
        storage(new T[2 * kRows * shape.sequence + 5 * vectors + 2 * shape.sequence]) {}

  int64_t vectors;  // numbers in one head's queries
  std::unique_ptr<T[]> storage;

  T* part(int64_t index) const { return storage.get() + index * vectors; }
  T* tail() const { return part(5); }
};

// Where head `head` of sample `sample` starts in [samples, sequence, heads, head_size].
template <class T>
Matrix<T> head_of(const AttentionShape& a, T* data, int64_t heads, int64_t sample, int64_t head) {
  return {data + (sample * a.sequence * heads + head) * a.head_size, heads * a.head_size};
}

template <class T>
TOMBOLO_INLINE void forward(const AttentionShape& a, const T* query, const T* key, const T* value,
                            const T* cosine, const T* sine, T* out, T* log_sum) {
  const int64_t s = a.sequence, d = a.head_size, group = a.heads / a.kv_heads;
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(d)));
  const Workspace<T> work(a);
  const Matrix<T> q{work.part(0), d}, k{work.part(1), d}, scores{work.tail(), s};
  T* inverse_sum = work.part(2);
  for (int64_t i = 0; i < a.samples * a.heads; ++i) {
    const int64_t sample = i / a.heads, head = i % a.heads, shared = head / group;
    const auto v = head_of(a, value, a.kv_heads, sample, shared);
    const auto o = head_of(a, out, a.heads, sample, head);
    if (head % group == 0) {
      rotate_rows(s, d, head_of(a, key, a.kv_heads, sample, shared), cosine, sine, T{1}, T{1}, k);
    }
    rotate_rows(s, d, head_of(a, query, a.heads, sample, head), cosine, sine, T{1}, scale, q);
    for (int64_t first = 0; first < s; first += kRows) {
      const int64_t rows = std::min(kRows, s - first), columns = first + rows;
      multiply(rows, columns, d, constant(q.from_row(first)), constant(k.t()), T{0}, scores);
      exponentials(rows, first, scores, inverse_sum, log_sum + i * s);
      multiply(rows, d, columns, constant(scores), v, T{0}, o.from_row(first));
      scale_rows(rows, d, inverse_sum, o.from_row(first));
    }
  }
}

template <class T>
TOMBOLO_INLINE void backward(const AttentionShape& a, const T* out_gradient, const T* query,
                             const T* key, const T* value, const T* cosine, const T* sine,
                             const T* out, const T* log_sum, T* query_gradient, T* key_gradient,
                             T* value_gradient) {
  const int64_t s = a.sequence, d = a.head_size, group = a.heads / a.kv_heads;
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(d)));
  const Workspace<T> work(a);
  const Matrix<T> q{work.part(0), d}, k{work.part(1), d}, dq{work.part(2), d}, dk{work.part(3), d};
  const Matrix<T> scores{work.tail(), s}, dscores{work.tail() + kRows * s, s};
  T* along = work.tail() + 2 * kRows * s;
  for (int64_t i = 0; i < a.samples * a.heads; ++i) {
    const int64_t sample = i / a.heads, head = i % a.heads, shared = head / group;
    const auto v = head_of(a, value, a.kv_heads, sample, shared);
    const auto dv = head_of(a, value_gradient, a.kv_heads, sample, shared);
    const auto o = head_of(a, out, a.heads, sample, head);
    const auto dout = head_of(a, out_gradient, a.heads, sample, head);
    const bool opens = head % group == 0, closes = head % group == group - 1;
    if (opens) {
      rotate_rows(s, d, head_of(a, key, a.kv_heads, sample, shared), cosine, sine, T{1}, T{1}, k);
      std::fill(dk.data, dk.data + s * d, T{0});
      for (int64_t row = 0; row < s; ++row) {
        std::fill_n(dv.data + row * dv.stride, d, T{0});
      }
    }
    rotate_rows(s, d, head_of(a, query, a.heads, sample, head), cosine, sine, T{1}, scale, q);
    row_products(s, d, o, dout, along);
    for (int64_t first = 0; first < s; first += kRows) {
      const int64_t rows = std::min(kRows, s - first), columns = first + rows;
      const auto queries = constant(q.from_row(first));
      const auto dout_rows = dout.from_row(first);
      multiply(rows, columns, d, queries, constant(k.t()), T{0}, scores);
      multiply(rows, columns, d, dout_rows, v.t(), T{0}, dscores);
      softmax_gradient(rows, first, scores, dscores, log_sum + i * s, along);
      multiply(rows, d, columns, constant(dscores), constant(k), T{0}, dq.from_row(first));
      multiply(columns, d, rows, constant(dscores.t()), queries, T{1}, dk);
      multiply(columns, d, rows, constant(scores.t()), dout_rows, T{1}, dv);
    }
    rotate_rows(s, d, constant(dq), cosine, sine, T{-1}, scale,
                head_of(a, query_gradient, a.heads, sample, head));
    if (closes) {
      rotate_rows(s, d, constant(dk), cosine, sine, T{-1}, T{1},
                  head_of(a, key_gradient, a.kv_heads, sample, shared));
    }
  }
}

}  // namespace

template <>
TOMBOLO_VECTOR_CODE void attention_forward(const AttentionShape& a, const float* query,
                                           const float* key, const float* value,
                                           const float* cosine, const float* sine, float* out,
                                           float* log_sum) {
  forward(a, query, key, value, cosine, sine, out, log_sum);
}
template <>
void attention_forward(const AttentionShape& a, const double* query, const double* key,
                       const double* value, const double* cosine, const double* sine, double* out,
                       double* log_sum) {
  forward(a, query, key, value, cosine, sine, out, log_sum);
}

template <>
TOMBOLO_VECTOR_CODE void attention_backward(const AttentionShape& a, const float* dout,
                                            const float* query, const float* key,
                                            const float* value, const float* cosine,
                                            const float* sine, const float* out,
                                            const float* log_sum, float* dquery, float* dkey,
                                            float* dvalue) {
  backward(a, dout, query, key, value, cosine, sine, out, log_sum, dquery, dkey, dvalue);
}
template <>
void attention_backward(const AttentionShape& a, const double* dout, const double* query,
                        const double* key, const double* value, const double* cosine,
                        const double* sine, const double* out, const double* log_sum,
                        double* dquery, double* dkey, double* dvalue) {
  backward(a, dout, query, key, value, cosine, sine, out, log_sum, dquery, dkey, dvalue);
}

}  // namespace tombolo::train
