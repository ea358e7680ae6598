#include "perform/exchange/outer_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "perform/exchange/sparse_updates.h"

namespace tombolo::exchange {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OuterUpdates, CountsALargeNormNoMoreThanTheMedian) {
  EXPECT_THAT(clipped_to_median(std::array{1.0, 4.0, 2.0}), ElementsAre(1, 0.5f, 1));
  EXPECT_THAT(clipped_to_median(std::array{1.0, 4.0}), ElementsAre(1, 0.25f));
  EXPECT_THAT(clipped_to_median(std::array{0.0, 0.0}), ElementsAre(1, 1));
}

// What each of several datacenters ends with, all of which lead.
std::vector<std::vector<float>> means(const plan::Exchange& exchange,
                                      const std::vector<std::vector<float>>& changes,
                                      std::vector<std::vector<float>>& residuals) {
  compress::BlockCompressor compressor(exchange.is_sparse_local() ? compress_options(exchange)
                                                                  : compress::CompressOptions{});
  std::vector<OuterUpdates> all;
  const size_t n = changes.size();
  for (size_t d = 0; d < n; ++d) {
    all.emplace_back(OuterUpdates::Options{n, d, 1, exchange}, std::ssize(changes[d]), changes[d],
                     residuals[d], &compressor);
  }
  for (size_t d = 0; d < n; ++d) {
    const link::Payload bytes = *all[d].give(d);
    for (size_t other = 0; other < n; ++other) {
      if (other == d) continue;
      EXPECT_TRUE(all[other].take(d, bytes));
    }
  }
  std::vector<std::vector<float>> out;
  for (const OuterUpdates& each : all) out.push_back(each.mean());
  return out;
}

TEST(OuterUpdates, OfAllNumbersAreTheirMean) {
  std::vector<std::vector<float>> none(3);
  for (const plan::SentValues values : {plan::SentValues::kFp32, plan::SentValues::kBf16}) {
    const auto found = means(
        {.mode = plan::ExchangeMode::kLocal, .values = values},
        {std::vector<float>(20, 1), std::vector<float>(20, 2), std::vector<float>(20, 6)}, none);
    for (const auto& each : found) EXPECT_THAT(each, Each(3));
  }
}

// Two blocks, of which each datacenter sends its larger one: the first is sent by two of the three.
TEST(OuterUpdates, OfBlocksAreTheMeanOverThoseWhoSentThem) {
  const auto blocks = [](float first, float second) {
    std::vector<float> out(32, first);
    std::fill(out.begin() + 16, out.end(), second);
    return out;
  };
  std::vector<std::vector<float>> residuals(3, blocks(0, 2));
  const plan::Exchange exchange{
      .mode = plan::ExchangeMode::kSparseLocal, .density = 0.5, .decay = 0.5};
  // Kept back before: 2 in the second block, of which half is left, and added.
  const auto found = means(exchange, {blocks(4, 0), blocks(4, 1), blocks(1, 3)}, residuals);
  for (const auto& each : found) EXPECT_EQ(each, blocks(4, 4));
  EXPECT_EQ(residuals[0], blocks(0, 1));
  EXPECT_EQ(residuals[1], blocks(0, 2));
  EXPECT_EQ(residuals[2], blocks(1, 0));
}

// One number of a chunk: the first is sent by two of three, the third's update has the largest norm,
// of which as much counts as of the median.
TEST(OuterUpdates, OfChunksAreTheMeanOverThoseWhoSentANumber) {
  const auto numbers = [](float first, float last) {
    std::vector<float> out(4096);
    out.front() = first, out.back() = last;
    return out;
  };
  std::vector<std::vector<float>> residuals(3, numbers(0, 2));
  const plan::Exchange exchange{.mode = plan::ExchangeMode::kSparseLocal,
                                .select = plan::Select::kChunks,
                                .density = 1.0 / 4096,
                                .decay = 0.5};
  // Kept back: half of 2. Sent are 4 and 2 of the first number, 8 of the last, which counts as 4.
  const auto found = means(exchange, {numbers(4, 0), numbers(2, 0.5f), numbers(1, 7)}, residuals);
  for (const auto& each : found) EXPECT_EQ(each, numbers(3, 4));
  EXPECT_EQ(residuals[0], numbers(0, 1));
  EXPECT_EQ(residuals[1], numbers(0, 1.5f));
  EXPECT_EQ(residuals[2], numbers(1, 0));
}

// The norms of three blocks of ones, twos and fours are 4, 8 and 16: the last one counts half.
TEST(OuterUpdates, ClipTheLargestNormOfBlocksToTheMedian) {
  std::vector<std::vector<float>> changes, residuals(3, std::vector<float>(16));
  for (const float each : {1.0f, 2.0f, 4.0f}) changes.emplace_back(16, each);
  const auto found =
      means({.mode = plan::ExchangeMode::kSparseLocal, .density = 1}, changes, residuals);
  for (const auto& each : found) EXPECT_THAT(each, Each((1 + 2 + 2) / 3.0f));
}

TEST(OuterUpdates, SayWhatIsWrong) {
  const plan::Exchange exchange{.mode = plan::ExchangeMode::kLocal};
  OuterUpdates updates({2, 0, 1, exchange}, 3, {1, INFINITY, 2}, {}, nullptr);
  const auto none = updates.give(0);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().text(), HasSubstr("training diverged"));
  const Status strange = updates.take(1, link::Payload(5));
  ASSERT_FALSE(strange);
  EXPECT_THAT(strange.error().text(), HasSubstr("outer update of datacenter 1"));
}

}  // namespace
}  // namespace tombolo::exchange
