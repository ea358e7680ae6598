#include "perform/update/sparse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace tombolo::update {
namespace {

// Some blocks of a tensor, and the same as a dense gradient.
struct Some {
  std::vector<uint32_t> blocks;
  std::vector<float> values, dense;
  SparseGradient sparse() const { return {blocks, values}; }
};

Some some_blocks(Random& random, int64_t size, uint64_t one_in) {
  Some some{.dense = std::vector<float>(static_cast<size_t>(size), 0.0f)};
  for (int64_t b = 0; b < sparse_blocks(size); ++b) {
    if (random.below(one_in) != 0) continue;
    some.blocks.push_back(static_cast<uint32_t>(b));
    for (int64_t i = b * kSparseBlock; i < (b + 1) * kSparseBlock; ++i) {
      some.values.push_back(static_cast<float>(random.normal()));
      if (i < size) some.dense[static_cast<size_t>(i)] = some.values.back();
    }
  }
  return some;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

struct Tensors {
  explicit Tensors(int64_t size)
      : w(static_cast<size_t>(size), 1.0f),
        m(w.size(), 0.0f),
        v(w.size(), 0.0f),
        last(static_cast<size_t>(sparse_blocks(size)), 0) {}
  std::vector<float> w, m, v;
  std::vector<uint32_t> last;
};

TEST(SparseSgd, EqualsADenseStepBitByBit) {
  Random random(1);
  for (const int64_t size : {1, 15, 16, 17, 1000}) {
    Tensors sparse(size), dense(size);
    for (int step = 0; step < 20; ++step) {
      const Some g = some_blocks(random, size, 3);
      sparse_sgd(0.1, g.sparse(), sparse.w);
      momentum({.learning_rate = 0.1, .momentum = 0}, dense.w, g.dense, dense.m);
      EXPECT_EQ(sparse.w, dense.w) << size;
    }
  }
}

// w = 1, rate 0.1, momentum 0.5. A gradient of 1 in step 1, none in 2 and 3, 1 in step 4:
//   step 1  b = 1            w = 0.9
//   step 2  b = 0.5          w = 0.85      step 3  b = 0.25   w = 0.825
//   step 4  b = 1.125        w = 0.7125
TEST(SparseMomentum, MakesUpForStepsWithoutAGradient) {
  Tensors tensors(1);
  const MomentumStep step{.learning_rate = 0.1, .momentum = 0.5};
  const std::vector<uint32_t> block = {0};
  std::vector<float> values(16, 1.0f);
  sparse_momentum(step, 1, {block, values}, tensors.w, tensors.m, tensors.last);
  EXPECT_NEAR(tensors.w[0], 0.9, 1e-6);
  sparse_momentum(step, 4, {block, values}, tensors.w, tensors.m, tensors.last);
  EXPECT_NEAR(tensors.m[0], 1.125, 1e-6);
  EXPECT_NEAR(tensors.w[0], 0.7125, 1e-6);
  EXPECT_EQ(tensors.last[0], 4u);
}

TEST(SparseMomentum, EqualsDenseMomentumOnceItIsSettled) {
  for (const bool nesterov : {false, true}) {
    Random random(2);
    Tensors sparse(777), dense(777);
    const MomentumStep step{.learning_rate = 0.01, .momentum = 0.9, .nesterov = nesterov};
    for (uint32_t t = 1; t <= 100; ++t) {
      const Some g = some_blocks(random, 777, 20);
      sparse_momentum(step, t, g.sparse(), sparse.w, sparse.m, sparse.last);
      momentum(step, dense.w, g.dense, dense.m);
    }
    EXPECT_GT(largest_difference(sparse.w, dense.w), 1e-3f);  // some lag behind
    settle_momentum(step, 100, sparse.w, sparse.m, sparse.last);
    EXPECT_LT(largest_difference(sparse.w, dense.w), 1e-6f);
    EXPECT_LT(largest_difference(sparse.m, dense.m), 1e-6f);
  }
}

TEST(SparseAdamW, EqualsDenseAdamWWhereAllBlocksCome) {
  Random random(3);
  Tensors sparse(333), dense(333);
  for (int64_t t = 1; t <= 50; ++t) {
    const AdamStep step{.learning_rate = 0.01, .weight_decay = 0.1, .step = t};
    const Some g = some_blocks(random, 333, 1);
    sparse_adamw(step, g.sparse(), sparse.w, sparse.m, sparse.v, sparse.last);
    adamw(step, dense.w, g.dense, dense.m, dense.v);
  }
  EXPECT_LT(largest_difference(sparse.w, dense.w), 1e-6f);
}

TEST(SparseAdamW, KeepsMomentsAsDenseAdamWDoesAndWeightsWithinItsBound) {
  // A gradient for a twentieth of the blocks in each step, and in the last for all.
  Random random(4);
  Tensors sparse(4000), dense(4000);
  constexpr double kRate = 0.01;
  for (int64_t t = 1; t <= 100; ++t) {
    const AdamStep step{.learning_rate = kRate, .weight_decay = 0.1, .step = t};
    const Some g = some_blocks(random, 4000, t < 100 ? 20 : 1);
    sparse_adamw(step, g.sparse(), sparse.w, sparse.m, sparse.v, sparse.last);
    adamw(step, dense.w, g.dense, dense.m, dense.v);
  }
  EXPECT_LT(largest_difference(sparse.m, dense.m), 1e-6f);
  EXPECT_LT(largest_difference(sparse.v, dense.v), 1e-6f);
  // About 5 gradients came for each, hence as many pauses, at most 14 rates each; one may hit harder
  // than the average, but all in one direction do not.
  EXPECT_LT(largest_difference(sparse.w, dense.w), 5 * 14 * kRate);
}

// After one gradient and a pause, dense Adam has moved on by the sum that the header names.
TEST(SparseAdamW, LeavesOutWhatTheHeaderSays) {
  Tensors sparse(16), dense(16);
  const std::vector<uint32_t> block = {0};
  const std::vector<float> g(16, 1.0f), none(16, 0.0f);
  AdamStep step{.learning_rate = 1e-3, .step = 1'000'000};  // bias is corrected to nothing
  sparse_adamw(step, {block, g}, sparse.w, sparse.m, sparse.v, sparse.last);
  adamw(step, dense.w, g, dense.m, dense.v);
  EXPECT_NEAR(sparse.w[0], dense.w[0], 1e-7);
  for (int i = 0; i < 400; ++i) adamw(step, dense.w, none, dense.m, dense.v);
  const double rho = 0.9 / std::sqrt(0.95), r = 0.1 / std::sqrt(0.05);
  EXPECT_NEAR(sparse.w[0] - dense.w[0], 1e-3 * r * rho / (1 - rho), 1e-6);
}

TEST(SparseDeathTest, WantsStepsThatGrowAndBlocksThatExist) {
  Tensors tensors(32);
  const std::vector<uint32_t> block = {2};
  const std::vector<float> values(16, 1.0f);
  EXPECT_DEATH(sparse_sgd(1, {block, values}, tensors.w), "block 2 of 32 numbers");
  const std::vector<uint32_t> first = {0};
  const auto twice = [&] {
    for (int i = 0; i < 2; ++i) {
      sparse_momentum({.learning_rate = 1}, 7, {first, values}, tensors.w, tensors.m, tensors.last);
    }
  };
  EXPECT_DEATH(twice(), "step 7 after 7");
}

}  // namespace
}  // namespace tombolo::update
