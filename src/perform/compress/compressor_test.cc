#include "perform/compress/compressor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "perform/compress/largest_blocks.h"

namespace tombolo::compress {
namespace {

std::vector<float> normal_numbers(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& x : numbers) x = static_cast<float>(random.normal());
  return numbers;
}

// Fast, and near enough to normal: the sum of four uniform numbers.
void add_noise(Random& random, float scale, std::span<float> numbers) {
  for (float& x : numbers) {
    const uint64_t bits = random.next();
    float sum = -2;
    for (int i = 0; i < 4; ++i) sum += static_cast<float>((bits >> (16 * i)) & 0xffff) / 65536;
    x += scale * sum;
  }
}

TEST(Target, IsTheShareOfEachReplica) {
  EXPECT_EQ(block_target(16 * 1000, 0.01, 1), 10);
  EXPECT_EQ(block_target(16 * 1000, 0.01, 4), 3);    // 2.5, rounded
  EXPECT_EQ(block_target(16 * 1000, 0.01, 100), 1);  // never nothing
  EXPECT_EQ(block_target(17, 1, 1), 2);
  EXPECT_EQ(block_target(0, 0.5, 1), 0);
  EXPECT_EQ(blocks_of(1'000'000'000), 62'500'000);
}

TEST(Threshold, IsFoundInsideABinByItsShare) {
  // Four blocks with norms from 2 on, in a bin of width 2/128; one far above; two zeros.
  Histogram histogram;
  histogram.counts()[0x4000] = 4;
  histogram.counts()[0x4200] = 1;
  histogram.counts()[0] = 2;
  EXPECT_FLOAT_EQ(threshold_of(histogram, 1), 32);              // all of the upper bin
  EXPECT_FLOAT_EQ(threshold_of(histogram, 3), 2 + 1.0f / 128);  // and half of the lower
  EXPECT_FLOAT_EQ(threshold_of(histogram, 5), 2);
  EXPECT_EQ(threshold_of(histogram, 6), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(threshold_of(histogram, 0), std::numeric_limits<float>::infinity());
}

TEST(Scattered, VisitsEachOnceAndBeginsEverywhere) {
  for (const int64_t count : {0, 1, 2, 3, 16, 100, 1327}) {
    std::vector<int64_t> order = scattered(count, 5);
    const int64_t early = std::count_if(order.begin(), order.begin() + count / 4,
                                        [&](int64_t at) { return at < count / 2; });
    EXPECT_NEAR(static_cast<double>(early), static_cast<double>(count) / 8, 2) << count;
    std::sort(order.begin(), order.end());
    std::vector<int64_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all);
  }
  EXPECT_NE(scattered(100, 1), scattered(100, 2));
}

TEST(Exact, EqualsSortingAllNorms) {
  // Norms from few values, so that many are equal and lie in one bin.
  Random random(3);
  for (int round = 0; round < 50; ++round) {
    const auto length = static_cast<int64_t>(1 + random.below(3000));
    std::vector<float> numbers(static_cast<size_t>(length), 0.0f);
    for (int64_t at = 0; at < length; at += kBlock) {
      numbers[static_cast<size_t>(at)] =
          static_cast<float>(random.below(6)) / 512 + 1 - static_cast<float>(random.below(2));
    }
    std::vector<uint32_t> order(static_cast<size_t>(blocks_of(length)));
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return block_norm(numbers, a) > block_norm(numbers, b);
    });
    const double density = 0.05 + 0.95 * random.uniform();
    order.resize(static_cast<size_t>(block_target(length, density, 1)));
    std::erase_if(order, [&](uint32_t b) { return block_norm(numbers, b) == 0; });
    std::sort(order.begin(), order.end());
    BlockCompressor compressor({.density = density});
    SelectionState state;
    std::vector<uint32_t> ids;
    EXPECT_TRUE(compressor.select(numbers, state, ids).exact);
    EXPECT_EQ(ids, order);
  }
}

// What was sent and what stayed back are, together, what came in: exactly for bf16, whose rounding
// error is a float; else each step rounds once.
TEST(ErrorFeedback, LosesNothing) {
  for (const Values values : {Values::kBf16, Values::kInt8, Values::kInt4, Values::kTwoBit}) {
    for (const int64_t length : {1, 16, 100, 32766, 32767, 32768, 65534, 65535, 65536, 70000}) {
      BlockCompressor compressor({.density = 0.1, .values = values});
      SelectionState state;
      std::vector<float> residual(static_cast<size_t>(length), 0.0f);
      std::vector<double> came(residual.size(), 0), went(residual.size(), 0);
      PackedBlocks sent;
      Blocks blocks;
      for (uint64_t step = 0; step < 5; ++step) {
        const std::vector<float> gradient = normal_numbers(length, step);
        compressor.compress(gradient, residual, state, sent);
        EXPECT_EQ(static_cast<int64_t>(sent.ids.size()), block_target(length, 0.1, 1));
        unpack(sent, blocks);
        const std::vector<float> dense = blocks.dense();
        for (size_t i = 0; i < came.size(); ++i) {
          came[i] += static_cast<double>(gradient[i]);
          went[i] += static_cast<double>(dense[i]);
        }
      }
      double worst = 0;
      for (size_t i = 0; i < came.size(); ++i) {
        worst = std::max(worst, std::fabs(came[i] - went[i] - static_cast<double>(residual[i])));
      }
      EXPECT_LT(worst, 5e-6) << values_name(values) << ", " << length;
    }
  }
}

TEST(ErrorFeedback, SendsWhatWasComputedByHand) {
  // Three blocks with norms 16, 2 and 8; two may go. Decay 0.5 halves the residual of block 1.
  std::vector<float> gradient(48), residual(48, 0.0f);
  std::fill_n(gradient.begin(), 16, 1.0f);
  std::fill_n(gradient.begin() + 16, 16, 0.125f);
  std::fill_n(gradient.begin() + 32, 16, -0.5f);
  BlockCompressor compressor({.density = 0.67, .decay = 0.5});
  SelectionState state;
  PackedBlocks sent;
  compressor.compress(gradient, residual, state, sent);
  EXPECT_EQ(sent.ids, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(residual[0], 0);
  EXPECT_EQ(residual[16], 0.125f);
  const std::vector<float> nothing(48, 0.0f);
  compressor.compress(nothing, residual, state, sent);
  EXPECT_EQ(sent.ids, (std::vector<uint32_t>{1}));  // blocks of zeros are not sent
  Blocks blocks;
  unpack(sent, blocks);
  EXPECT_EQ(blocks.values, std::vector<float>(16, 0.0625f));
}

// With a threshold, of a tensor that would otherwise be too small for one.
TEST(SelectedCount, IsWithinTwoPercentWhileResidualsGrow) {
  constexpr int64_t kLength = int64_t{1} << 18;
  for (const bool jumps : {false, true}) {
    Random random(11);
    std::vector<float> gradient(kLength), residual(kLength, 0.0f);
    BlockCompressor compressor({.density = 0.01, .exact_every = 20, .exact_below = 0});
    SelectionState state;
    PackedBlocks sent;
    int exact = 0;
    for (int step = 1; step <= 24; ++step) {
      const float scale = jumps && step % 2 == 0 ? 3.0f : 1.0f;
      std::fill(gradient.begin(), gradient.end(), 0.0f);
      add_noise(random, scale, gradient);
      const Selected done = compressor.compress(gradient, residual, state, sent);
      exact += done.exact ? 1 : 0;
      EXPECT_EQ(done.blocks, static_cast<int64_t>(sent.ids.size()));
      EXPECT_TRUE(std::is_sorted(sent.ids.begin(), sent.ids.end()));
      EXPECT_NEAR(static_cast<double>(done.blocks) / static_cast<double>(done.target), 1, 0.02)
          << "step " << step;
    }
    EXPECT_EQ(exact, 1);  // step 20
  }
}

TEST(SelectedCount, StaysWithinItsRoomWhereAllNormsAreEqual) {
  constexpr int64_t kLength = int64_t{1} << 18;
  const std::vector<float> gradient(kLength, 1.0f);
  std::vector<float> residual(kLength, 0.0f);
  BlockCompressor compressor({.density = 0.01, .exact_below = 0});
  SelectionState state;
  PackedBlocks sent;
  for (int step = 0; step < 3; ++step) {
    const Selected done = compressor.compress(gradient, residual, state, sent);
    EXPECT_LE(done.blocks, done.target + done.target / 4 + 16);
    EXPECT_GT(done.blocks, 0);
  }
}

TEST(Compressor, GoesOnFromItsStateWithTheSameBits) {
  constexpr int64_t kLength = int64_t{1} << 18;
  Random random(5);
  std::vector<float> first(kLength, 0.0f), second(kLength, 0.0f);
  add_noise(random, 1, first);
  add_noise(random, 1, second);
  std::vector<float> residual(kLength, 0.0f);
  const CompressOptions options{.density = 0.01, .exact_below = 0};
  BlockCompressor one(options), another(options);
  SelectionState state;
  PackedBlocks sent, again;
  one.compress(first, residual, state, sent);
  std::vector<float> kept = residual;
  SelectionState kept_state = state;
  EXPECT_FALSE(one.compress(second, residual, state, sent).exact);
  another.compress(second, kept, kept_state, again);
  EXPECT_EQ(sent, again);
  EXPECT_EQ(residual, kept);
  EXPECT_EQ(state, kept_state);
}

TEST(Compressor, SaysThatAGradientIsNotFinite) {
  std::vector<float> gradient(1000, 1.0f), residual(1000, 0.0f);
  gradient[17] = std::numeric_limits<float>::quiet_NaN();
  BlockCompressor compressor({.density = 0.5});
  SelectionState state;
  PackedBlocks sent;
  EXPECT_EQ(compressor.compress(gradient, residual, state, sent).not_finite, 1);
  EXPECT_EQ(std::count(sent.ids.begin(), sent.ids.end(), 1u), 0);
}

}  // namespace
}  // namespace tombolo::compress
