#include "train/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "train/vector_math.h"

namespace tombolo::train {
namespace {

using Numbers = std::vector<double>;

Numbers draw(int64_t size, const char* name) {
  Random random = Random(5).stream(name);
  Numbers numbers(static_cast<size_t>(size));
  for (double& number : numbers) number = random.normal();
  return numbers;
}

struct Case {
  AttentionShape shape;
  Numbers query, key, value, cosine, sine;

  explicit Case(AttentionShape s) : shape(s) {
    const int64_t rows = s.samples * s.sequence;
    query = draw(rows * s.heads * s.head_size, "query");
    key = draw(rows * s.kv_heads * s.head_size, "key");
    value = draw(rows * s.kv_heads * s.head_size, "value");
    for (int64_t position = 0; position < s.sequence; ++position) {
      for (int64_t pair = 0; pair < s.head_size / 2; ++pair) {
        const double angle =
            static_cast<double>(position) / std::pow(10.0, static_cast<double>(pair));
        cosine.push_back(std::cos(angle));
        sine.push_back(std::sin(angle));
      }
    }
  }

  double at(const Numbers& numbers, int64_t heads, int64_t sample, int64_t position, int64_t head,
            int64_t i) const {
    return numbers[static_cast<size_t>(
        ((sample * shape.sequence + position) * heads + head) * shape.head_size + i)];
  }

  // Element i of a rotated query or key, straight from the definition.
  double rotated(const Numbers& numbers, int64_t heads, int64_t sample, int64_t position,
                 int64_t head, int64_t i) const {
    const int64_t half = shape.head_size / 2, pair = i % half;
    const auto angle = static_cast<size_t>(position * half + pair);
    const double x = at(numbers, heads, sample, position, head, pair);
    const double y = at(numbers, heads, sample, position, head, pair + half);
    return i < half ? x * cosine[angle] - y * sine[angle] : y * cosine[angle] + x * sine[angle];
  }

  // One loop per index.
  Numbers naive() const {
    Numbers out;
    const auto& s = shape;
    for (int64_t sample = 0; sample < s.samples; ++sample) {
      for (int64_t position = 0; position < s.sequence; ++position) {
        for (int64_t head = 0; head < s.heads; ++head) {
          const int64_t shared = head / (s.heads / s.kv_heads);
          Numbers weights;
          double sum = 0;
          for (int64_t other = 0; other <= position; ++other) {
            double score = 0;
            for (int64_t i = 0; i < s.head_size; ++i) {
              score += rotated(query, s.heads, sample, position, head, i) *
                       rotated(key, s.kv_heads, sample, other, shared, i);
            }
            weights.push_back(std::exp(score / std::sqrt(static_cast<double>(s.head_size))));
            sum += weights.back();
          }
          for (int64_t i = 0; i < s.head_size; ++i) {
            double mixed = 0;
            for (int64_t other = 0; other <= position; ++other) {
              mixed += weights[static_cast<size_t>(other)] / sum *
                       at(value, s.kv_heads, sample, other, shared, i);
            }
            out.push_back(mixed);
          }
        }
      }
    }
    return out;
  }

  Numbers fused(Numbers* log_sum = nullptr) const {
    Numbers out(query.size());
    Numbers sums(static_cast<size_t>(shape.samples * shape.heads * shape.sequence));
    attention_forward(shape, query.data(), key.data(), value.data(), cosine.data(), sine.data(),
                      out.data(), sums.data());
    if (log_sum != nullptr) *log_sum = sums;
    return out;
  }
};

// 70 positions: one full block of 64 queries and a rest.
constexpr AttentionShape kGrouped{
    .samples = 2, .sequence = 70, .heads = 4, .kv_heads = 2, .head_size = 6};

TEST(Attention, EqualsTheNaiveLoop) {
  const Case c(kGrouped);
  const Numbers naive = c.naive(), fused = c.fused();
  for (size_t i = 0; i < naive.size(); ++i) ASSERT_NEAR(fused[i], naive[i], 1e-12) << i;
}

TEST(Attention, ReadsNoKeyThatComesLater) {
  Case c(kGrouped);
  const Numbers before = c.fused();
  // Spoil the last position of sample 0; everything before it must keep its bits.
  const int64_t row = 69 * 2 * 6;
  for (int64_t i = 0; i < 12; ++i) c.key[row + i] = c.value[row + i] = 1e6;
  const Numbers after = c.fused();
  for (int64_t i = 0; i < 69 * 4 * 6; ++i) ASSERT_EQ(before[i], after[i]) << i;
  EXPECT_NE(before[69 * 4 * 6], after[69 * 4 * 6]);
}

TEST(Attention, GroupedQueriesEqualCopiedKeysAndValues) {
  // Two shared heads against four heads, where 0 and 1 are copies, and so are 2 and 3.
  const Case grouped(kGrouped);
  Case full(kGrouped);
  full.shape.kv_heads = 4;
  full.key.clear();
  full.value.clear();
  for (int64_t row = 0; row < 140; ++row) {
    for (int64_t head = 0; head < 4; ++head) {
      const int64_t from = (row * 2 + head / 2) * 6;
      for (int64_t i = 0; i < 6; ++i) {
        full.key.push_back(grouped.key[from + i]);
        full.value.push_back(grouped.value[from + i]);
      }
    }
  }
  EXPECT_EQ(grouped.fused(), full.fused());
}

TEST(Attention, GradientsEqualFiniteDifferences) {
  // f = sum of out * weight; (f(x + e) - f(x - e)) / 2e has an error of order e^2 = 1e-10.
  Case c(AttentionShape{.samples = 1, .sequence = 67, .heads = 2, .kv_heads = 1, .head_size = 4});
  const Numbers weight = draw(static_cast<int64_t>(c.query.size()), "weight");
  Numbers log_sum;
  const Numbers out = c.fused(&log_sum);
  Numbers dq(c.query.size()), dk(c.key.size()), dv(c.value.size());
  attention_backward(c.shape, weight.data(), c.query.data(), c.key.data(), c.value.data(),
                     c.cosine.data(), c.sine.data(), out.data(), log_sum.data(), dq.data(),
                     dk.data(), dv.data());
  const auto f = [&] {
    const Numbers now = c.fused();
    double sum = 0;
    for (size_t i = 0; i < now.size(); ++i) sum += now[i] * weight[i];
    return sum;
  };
  const auto check = [&](Numbers& inputs, const Numbers& gradient, const char* what) {
    for (size_t i = 0; i < inputs.size(); i += 7) {
      const double value = inputs[i], e = 1e-5;
      inputs[i] = value + e;
      const double above = f();
      inputs[i] = value - e;
      const double below = f();
      inputs[i] = value;
      ASSERT_NEAR(gradient[i], (above - below) / (2 * e), 1e-8) << what << " " << i;
    }
  };
  check(c.query, dq, "query");
  check(c.key, dk, "key");
  check(c.value, dv, "value");
}

TEST(Attention, FloatsAgreeWithDoubles) {
  const Case c(kGrouped);
  const auto narrow = [](const Numbers& x) { return std::vector<float>(x.begin(), x.end()); };
  const auto q = narrow(c.query), k = narrow(c.key), v = narrow(c.value), co = narrow(c.cosine),
             si = narrow(c.sine);
  std::vector<float> out(q.size()), log_sum(2 * 4 * 70);
  attention_forward(c.shape, q.data(), k.data(), v.data(), co.data(), si.data(), out.data(),
                    log_sum.data());
  const Numbers exact = c.fused();
  for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], exact[i], 2e-5) << i;
}

TEST(VectorExp, IsWithinTwoUnitsInTheLastPlace) {
  for (float x = -86.9f; x < 86.9f; x += 0.0137f) {
    const double exact = std::exp(static_cast<double>(x));
    ASSERT_NEAR(vector_exp(x) / exact, 1, 2.4e-7) << x;
  }
  EXPECT_TRUE(std::isnan(vector_exp(std::nanf(""))));
  EXPECT_LT(vector_exp(-1000.0f), 2e-38f);
}

}  // namespace
}  // namespace tombolo::train
