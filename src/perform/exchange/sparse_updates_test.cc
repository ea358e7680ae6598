#include "perform/exchange/sparse_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "spec/schedule/sparse_exchange.h"

namespace tombolo::exchange {
namespace {

using ::testing::HasSubstr;

std::vector<float> noise(Random& random, size_t size) {
  std::vector<float> out(size);
  for (float& each : out) each = static_cast<float>(random.normal());
  return out;
}

// The leaders of two datacenters, iteration by iteration.
class TwoLeaders {
 public:
  TwoLeaders(const plan::Exchange& exchange, size_t size)
      : exchange_(exchange), compressor_(compress_options(exchange)) {
    for (auto& each : residuals_) each.resize(size);
  }

  // Both merge the same; bytes of the first one's update.
  compress::Merged exchange(const std::array<std::vector<float>, 2>& gradients) {
    ++iteration_;
    std::vector<SparseUpdates> both;
    for (size_t d = 0; d < 2; ++d)
      both.emplace_back(SparseUpdates::Options{2, d, iteration_, exchange_}, gradients[d],
                        residuals_[d], compressor_);
    EXPECT_FALSE(both[0].is_taken());
    const link::Payload first = *both[0].give(0), second = *both[1].give(1);
    EXPECT_TRUE(both[0].is_taken());
    bytes = first.size();
    EXPECT_TRUE(both[0].take(1, second));
    EXPECT_TRUE(both[1].take(0, first));
    const compress::Merged merged = both[0].merged();
    EXPECT_EQ(merged.blocks, both[1].merged().blocks);
    return merged;
  }
  const std::vector<float>& residual(size_t d) const { return residuals_[d]; }
  size_t bytes = 0;

 private:
  const plan::Exchange exchange_;
  compress::BlockCompressor compressor_;
  std::array<std::vector<float>, 2> residuals_;
  int64_t iteration_ = 0;
};

// With all blocks in bf16 (8 bits) what is merged is the sum, but for the rounding of each number,
// and the residual is that rounding.
TEST(SparseUpdates, OfAllBlocksAreTheSumButForRounding) {
  Random random(3);
  const std::array gradients{noise(random, 1003), noise(random, 1003)};
  TwoLeaders leaders({.mode = plan::ExchangeMode::kSparse, .density = 1}, 1003);
  const std::vector<float> sum = leaders.exchange(gradients).blocks.dense();
  ASSERT_EQ(sum.size(), 1003u);
  for (size_t i = 0; i < sum.size(); ++i) {
    const float a = gradients[0][i], b = gradients[1][i];
    EXPECT_NEAR(sum[i], a + b, (std::abs(a) + std::abs(b)) / 256);
    EXPECT_NEAR(leaders.residual(0)[i] + leaders.residual(1)[i], a + b - sum[i], 1e-6);
  }
}

// Nothing is lost: what was merged and what stays behind is what was given, after any number of steps.
TEST(SparseUpdates, WhatIsSentAndWhatStaysIsWhatWasGiven) {
  constexpr size_t kSize = 16 * 500;
  using plan::SentValues;
  const std::pair<plan::Select, std::optional<SentValues>> ways[] = {
      {plan::Select::kTopK, std::nullopt},          {plan::Select::kBlocks, SentValues::kBf16},
      {plan::Select::kBlocks, SentValues::kInt8},   {plan::Select::kBlocks, SentValues::kInt4},
      {plan::Select::kBlocks, SentValues::kTwoBit}, {plan::Select::kChunks, SentValues::kTwoBit},
      {plan::Select::kChunks, SentValues::kBf16}};
  for (const auto& [select, values] : ways) {
    Random random(4);
    TwoLeaders leaders(
        {.mode = plan::ExchangeMode::kSparse, .select = select, .density = 0.05, .values = values},
        kSize);
    std::vector<double> given(kSize), sent(kSize);
    for (int step = 0; step < 100; ++step) {
      const std::array gradients{noise(random, kSize), noise(random, kSize)};
      const std::vector<float> merged = leaders.exchange(gradients).blocks.dense();
      for (size_t i = 0; i < kSize; ++i) {
        given[i] += gradients[0][i] + gradients[1][i];
        sent[i] += merged[i];
      }
    }
    double worst = 0;
    for (size_t i = 0; i < kSize; ++i)
      worst = std::max(
          worst, std::abs(given[i] - sent[i] - leaders.residual(0)[i] - leaders.residual(1)[i]));
    EXPECT_LT(worst, 1e-3) << to_name(select)
                           << static_cast<int>(values.value_or(SentValues::kFp32));
  }
}

// The simulator's bytes are those that are sent.
TEST(SparseUpdates, AreAsLongAsThePlanExpects) {
  constexpr size_t kSize = 1 << 20;
  for (const double density : {0.001, 0.01, 0.1}) {
    const plan::Exchange exchange{.mode = plan::ExchangeMode::kSparse, .density = density};
    Random random(5);
    TwoLeaders leaders(exchange, kSize);
    for (int step = 0; step < 3; ++step)
      leaders.exchange({noise(random, kSize), noise(random, kSize)});
    EXPECT_NEAR(
        static_cast<double>(leaders.bytes) / schedule::expected_update_bytes(exchange, kSize), 1,
        0.01)
        << density;
  }
}

TEST(SparseUpdates, OfChunksAreExactlyAsLongAsThePlanExpects) {
  for (const size_t size : {1, 100, 4096, 5000, 100'000}) {
    for (const auto values : {plan::SentValues::kBf16, plan::SentValues::kTwoBit}) {
      const plan::Exchange exchange{
          .mode = plan::ExchangeMode::kSparse, .select = plan::Select::kChunks, .values = values};
      Random random(5);
      TwoLeaders leaders(exchange, size);
      leaders.exchange({noise(random, size), noise(random, size)});
      EXPECT_EQ(static_cast<double>(leaders.bytes),
                schedule::expected_update_bytes(exchange, static_cast<int64_t>(size)));
    }
  }
}

TEST(SparseUpdates, OfTheLargestNumbersAreExactlyAsLongAsThePlanExpects) {
  for (const size_t size : {1, 100, 4096, 100'000}) {
    const plan::Exchange exchange{
        .mode = plan::ExchangeMode::kSparse, .select = plan::Select::kTopK, .density = 0.03};
    Random random(5);
    TwoLeaders leaders(exchange, size);
    leaders.exchange({noise(random, size), noise(random, size)});
    EXPECT_EQ(static_cast<double>(leaders.bytes),
              schedule::expected_update_bytes(exchange, static_cast<int64_t>(size)));
  }
}

TEST(SparseUpdates, SayWhyTheyRefuse) {
  const plan::Exchange exchange{.mode = plan::ExchangeMode::kSparse};
  compress::BlockCompressor compressor(compress_options(exchange));
  std::vector<float> gradient(64, 1.0f), residual(64);
  SparseUpdates updates({2, 0, 1, exchange}, gradient, residual, compressor);
  const Status taken = updates.take(1, link::Payload(30));
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().text(), HasSubstr("sparse update of datacenter 1"));

  gradient[3] = std::numeric_limits<float>::quiet_NaN();
  const auto given = updates.give(0);
  ASSERT_FALSE(given);
  EXPECT_THAT(given.error().text(), HasSubstr("no finite numbers in iteration 1"));
}

// Iteration 64 selects exactly again, and so does one that begins there.
TEST(SparseUpdates, KnowTheirSelectionFromTheIteration) {
  const compress::CompressOptions options{.exact_every = 64};
  EXPECT_EQ(selection_state(options, 1), (compress::SelectionState{0, 0}));
  EXPECT_EQ(selection_state(options, 64), (compress::SelectionState{63, 63}));
  EXPECT_EQ(selection_state(options, 65), (compress::SelectionState{64, 0}));
}

}  // namespace
}  // namespace tombolo::exchange
