#include "perform/train/operations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace tombolo::train {
namespace {

constexpr AttentionShape kGrouped{
    .samples = 2, .sequence = 7, .heads = 4, .kv_heads = 2, .head_size = 6};
constexpr double kTheta = 10;

at::Tensor draw(int64_t rows, int64_t columns, const char* name) {
  Random random = Random(5).stream(name);
  const at::Tensor values = at::empty({rows, columns}, at::kDouble);
  for (int64_t i = 0; i < values.numel(); ++i) values.data_ptr<double>()[i] = random.normal();
  return values;
}

at::Tensor queries(const AttentionShape& s) {
  return draw(s.samples * s.sequence, s.heads * s.head_size, "query");
}
at::Tensor keys(const AttentionShape& s, const char* name) {
  return draw(s.samples * s.sequence, s.kv_heads * s.head_size, name);
}

double number(const at::Tensor& x, int64_t row, int64_t column) {
  return x.data_ptr<double>()[row * x.size(1) + column];
}

// Element i of one head's rotated vector, straight from the definition.
double rotated(const AttentionShape& s, const at::Tensor& x, int64_t sample, int64_t position,
               int64_t head, int64_t i) {
  const int64_t half = s.head_size / 2, pair = i % half;
  const int64_t row = sample * s.sequence + position, first = head * s.head_size + pair;
  const double angle = static_cast<double>(position) *
                       std::pow(kTheta, -2.0 * static_cast<double>(pair) / s.head_size);
  const double a = number(x, row, first), b = number(x, row, first + half);
  return i < half ? a * std::cos(angle) - b * std::sin(angle)
                  : b * std::cos(angle) + a * std::sin(angle);
}

// Element i of the attention of one query, one loop per index, over the keys from `first` on.
double naive(const AttentionShape& s, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
             int64_t sample, int64_t position, int64_t head, int64_t i, int64_t first = 0) {
  const int64_t shared = head / (s.heads / s.kv_heads);
  double sum = 0, mixed = 0;
  for (int64_t other = first; other <= position; ++other) {
    double score = 0;
    for (int64_t j = 0; j < s.head_size; ++j) {
      score += rotated(s, q, sample, position, head, j) * rotated(s, k, sample, other, shared, j);
    }
    score /= std::sqrt(s.query_scalar.value_or(static_cast<double>(s.head_size)));
    if (s.softcap) score = *s.softcap * std::tanh(score / *s.softcap);
    const double weight = std::exp(score);
    sum += weight;
    mixed += weight * number(v, sample * s.sequence + other, shared * s.head_size + i);
  }
  return mixed / sum;
}

at::Tensor attend(const AttentionShape& s, const at::Tensor& q, const at::Tensor& k,
                  const at::Tensor& v) {
  return causal_attention(s, attention_tables(s, RotaryPositions{kTheta}, at::kDouble), q, k, v);
}

TEST(Attention, EqualsTheNaiveLoop) {
  const AttentionShape& s = kGrouped;
  const at::Tensor q = queries(s), k = keys(s, "key"), v = keys(s, "value");
  const at::Tensor out = attend(s, q, k, v);
  for (int64_t sample = 0; sample < s.samples; ++sample) {
    for (int64_t position = 0; position < s.sequence; ++position) {
      for (int64_t head = 0; head < s.heads; ++head) {
        for (int64_t i = 0; i < s.head_size; ++i) {
          ASSERT_NEAR(number(out, sample * s.sequence + position, head * s.head_size + i),
                      naive(s, q, k, v, sample, position, head, i), 1e-12);
        }
      }
    }
  }
}

// Gemma 2's: another divisor of scores, a cap on them, and the last three tokens alone.
TEST(Attention, CapsScoresAndLooksBackAsFarAsAWindow) {
  AttentionShape s = kGrouped;
  s.query_scalar = 2.5;
  s.softcap = 0.75;
  const at::Tensor q = queries(s), k = keys(s, "key"), v = keys(s, "value");
  for (const int64_t window : {1, 3, 7, 9}) {
    AttentionTables tables = attention_tables(s, RotaryPositions{kTheta}, at::kDouble);
    tables.mask = causal_mask(s.sequence, window, at::kDouble);
    const at::Tensor out = causal_attention(s, tables, q, k, v);
    for (int64_t row = 0; row < s.samples * s.sequence; ++row) {
      const int64_t sample = row / s.sequence, position = row % s.sequence;
      const int64_t first = std::max<int64_t>(0, position + 1 - window);
      for (int64_t column = 0; column < s.heads * s.head_size; ++column) {
        const int64_t head = column / s.head_size, i = column % s.head_size;
        ASSERT_NEAR(number(out, row, column), naive(s, q, k, v, sample, position, head, i, first),
                    1e-12)
            << "window " << window;
      }
    }
  }
}

// Rows in pieces, each with the keys before it, are the rows of the whole: one by one as decoding
// does, and some at a time.
TEST(Attention, LooksBackAsTheWholeDoes) {
  AttentionShape s = kGrouped;
  s.samples = 1;
  s.softcap = 0.75;
  const at::Tensor q = queries(s), k = keys(s, "key"), v = keys(s, "value");
  for (const std::optional<int64_t> window :
       {std::optional<int64_t>(), std::optional<int64_t>(1), std::optional<int64_t>(3),
        std::optional<int64_t>(20)}) {
    AttentionTables tables;
    tables.mask = causal_mask(s.sequence, window, at::kDouble);
    const at::Tensor whole = causal_attention(s, tables, q, k, v);
    for (const int64_t piece : {1, 2, 7}) {
      for (int64_t begin = 0; begin < s.sequence; begin += piece) {
        const int64_t end = std::min(begin + piece, s.sequence);
        const at::Tensor part =
            attend_back(s, window, q.slice(0, begin, end), k.slice(0, 0, end), v.slice(0, 0, end));
        EXPECT_TRUE(at::allclose(part, whole.slice(0, begin, end), 1e-12))
            << window.value_or(0) << " " << piece << " " << begin;
      }
    }
  }
}

TEST(Attention, ReadsNoKeyThatComesLater) {
  const AttentionShape& s = kGrouped;
  const at::Tensor q = queries(s), k = keys(s, "key"), v = keys(s, "value");
  const at::Tensor before = attend(s, q, k, v);
  // Spoil the last position of sample 0; only that position may notice.
  k[s.sequence - 1].fill_(1e3);
  v[s.sequence - 1].fill_(1e3);
  const at::Tensor after = attend(s, q, k, v);
  for (int64_t row = 0; row < s.samples * s.sequence; ++row) {
    EXPECT_EQ(at::equal(before[row], after[row]), row != s.sequence - 1) << row;
  }
}

TEST(Attention, GroupedQueriesEqualCopiedKeysAndValues) {
  // Two shared heads against four, where 0 and 1 are copies, and so are 2 and 3.
  const AttentionShape& s = kGrouped;
  AttentionShape full = s;
  full.kv_heads = 4;
  const at::Tensor q = queries(s), k = keys(s, "key"), v = keys(s, "value");
  const auto copied = [&](const at::Tensor& x) {
    return x.view({-1, s.kv_heads, s.head_size}).repeat_interleave(2, 1).view({x.size(0), -1});
  };
  EXPECT_TRUE(at::allclose(attend(s, q, k, v), attend(full, q, copied(k), copied(v)), 1e-12));
}

TEST(Attention, WithoutRotationLearnedPositionsHaveToDo) {
  // One head of size 1, two positions, q = (1, 1), k = (0, ln 3), v = (1, 5). Position 1 weighs its
  // keys 1 : 3, so it reads (1 + 3 * 5) / 4 = 4.
  const AttentionShape s{.samples = 1, .sequence = 2, .heads = 1, .kv_heads = 1, .head_size = 1};
  const at::Tensor q = at::ones({2, 1}, at::kDouble), k = at::zeros({2, 1}, at::kDouble);
  const at::Tensor v = at::ones({2, 1}, at::kDouble);
  k[1].fill_(std::log(3.0));
  v[1].fill_(5);
  const at::Tensor out =
      causal_attention(s, attention_tables(s, std::nullopt, at::kDouble), q, k, v);
  EXPECT_NEAR(number(out, 0, 0), 1, 1e-12);
  EXPECT_NEAR(number(out, 1, 0), 4, 1e-12);
}

TEST(RmsNorm, EqualsTheFormulaByHand) {
  // x = (3, 4): mean square 12.5; with epsilon 3.5 the root is 4, so y = (3/4, 4/4 * 2).
  const at::Tensor x = at::full({1, 2}, 3, at::kDouble), weight = at::ones({2}, at::kDouble);
  x.select(1, 1).fill_(4);
  weight[1].fill_(2);
  const at::Tensor y = rms_norm(x, weight, 3.5);
  EXPECT_DOUBLE_EQ(number(y, 0, 0), 0.75);
  EXPECT_DOUBLE_EQ(number(y, 0, 1), 2);
}

TEST(Swiglu, EqualsTheFormulaByHand) {
  // gate = ln 3: silu = ln 3 / (1 + 1/3) = 0.75 ln 3.
  const at::Tensor gate = at::full({1, 1}, std::log(3.0), at::kDouble);
  const at::Tensor up = at::full({1, 1}, 4, at::kDouble);
  EXPECT_NEAR(number(swiglu(gate, up), 0, 0), 3 * std::log(3.0), 1e-15);
}

TEST(Geglu, EqualsTheFormulaByHand) {
  // GPT-2's gelu of 1: 0.5 (1 + tanh(sqrt(2 / pi) (1 + 0.044715))) = 0.841192.
  const at::Tensor gate = at::ones({1, 1}, at::kDouble), up = at::full({1, 1}, 3, at::kDouble);
  EXPECT_NEAR(number(geglu(gate, up), 0, 0), 3 * 0.8411919906, 1e-9);
}

TEST(SoftCap, EqualsTheFormulaByHand) {
  // 2 tanh(ln 3 / 2) = 2 (3 - 1) / (3 + 1) = 1.
  const at::Tensor x = at::full({1, 1}, std::log(3.0), at::kDouble);
  EXPECT_NEAR(number(soft_cap(x, 2), 0, 0), 1, 1e-15);
}

}  // namespace
}  // namespace tombolo::train
