#include "perform/compress/chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/random.h"
#include "perform/compress/selection.h"

namespace tombolo::compress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Values kEveryValues[] = {Values::kBf16, Values::kInt8, Values::kInt4, Values::kTwoBit};

std::vector<float> drawn_normally(uint64_t seed, int64_t count) {
  Random random(seed);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& each : out) each = static_cast<float>(random.normal());
  return out;
}

std::vector<std::byte> sent_of(const ChunkOptions& options, std::span<const float> gradient,
                               std::span<float> residual) {
  const auto message = compress_chunks(options, gradient, residual);
  CHECK(message, "{}", message.error().text());
  return *message;
}

// A chunk of 4,096 with three numbers that are not small, two of them equal, and a rest of 64.
TEST(Chunks, TakeTheLargestOfEachByHand) {
  std::vector<float> numbers(4096 + 64, 0.25f);
  numbers[7] = -3, numbers[4000] = 2, numbers[100] = 2;
  numbers[4096 + 63] = -1;
  std::vector<float> residual(numbers.size());
  const auto message = sent_of({.per_chunk = 2}, numbers, residual);
  const ChosenNumbers chosen = *decode_chunks(message, std::ssize(numbers));
  EXPECT_THAT(chosen.ids, ElementsAre(7, 100, 4096 + 63));  // of equal ones the first
  EXPECT_THAT(chosen.values, ElementsAre(-3, 2, -1));
  EXPECT_EQ(residual[7], 0);
  EXPECT_EQ(residual[4000], 2);
  EXPECT_EQ(residual[0], 0.25f);
  EXPECT_EQ(message.size(), 24u + 5 + 32);
}

TEST(Chunks, HaveTheBytesThatTheHeaderSays) {
  constexpr int64_t kLength = 10 * kChunk;  // 640 numbers, 960 bytes of positions, 40 groups
  const std::vector<float> numbers = drawn_normally(1, kLength);
  const std::pair<Values, size_t> codes[] = {
      {Values::kBf16, 32}, {Values::kInt8, 17}, {Values::kInt4, 9}, {Values::kTwoBit, 5}};
  for (const auto& [values, bytes] : codes) {
    std::vector<float> residual(numbers.size());
    EXPECT_EQ(sent_of({.values = values}, numbers, residual).size(), 24 + 960 + 40 * bytes);
  }
  EXPECT_EQ(numbers_of_chunk(64.0 / 4096), 64);
  EXPECT_EQ(numbers_of_chunk(1e-9), 1);
  EXPECT_EQ(numbers_of_chunk(1), 4096);
  EXPECT_EQ(chosen_numbers(kChunk + 32, 64), 64 + 1);
  EXPECT_EQ(chosen_numbers(0, 64), 0);
}

// The comparison by name chooses by sorting, whole chunks alike.
TEST(Chunks, ChooseWhatTheComparisonByNameDoes) {
  for (const int64_t chunks : {1, 2, 7}) {
    std::vector<float> numbers = drawn_normally(2, chunks * kChunk);
    for (size_t i = 0; i < numbers.size(); i += 3) numbers[i] = std::round(4 * numbers[i]) / 4;
    const auto expected = make_selection("chunk-top-k", 64.0 / 4096, 1);
    std::vector<float> residual(numbers.size());
    const auto message = sent_of({}, numbers, residual);
    EXPECT_EQ(decode_chunks(message, std::ssize(numbers))->ids, (*expected)->select(numbers));
  }
}

// Sent and kept back make up what was there, but for the rounding of one subtraction; every length.
TEST(Chunks, WhatIsNotSentIsKept) {
  for (const Values values : kEveryValues) {
    for (const int64_t length : {0, 1, 2, 15, 17, 4095, 4096, 4097, 32767, 32768, 65535, 70001}) {
      for (const int64_t per_chunk : {1, 3, 64, 4096}) {
        const std::vector<float> gradient = drawn_normally(3, length);
        const std::vector<float> before = drawn_normally(4, length);
        std::vector<float> residual = before;
        const ChunkOptions options{.per_chunk = per_chunk, .values = values, .decay = 0.5};
        const auto chosen = decode_chunks(sent_of(options, gradient, residual), length);
        ASSERT_TRUE(chosen) << length;
        ASSERT_EQ(std::ssize(chosen->ids), chosen_numbers(length, per_chunk));
        std::vector<float> sent(gradient.size());
        for (size_t i = 0; i < chosen->ids.size(); ++i) sent[chosen->ids[i]] = chosen->values[i];
        for (size_t i = 0; i < gradient.size(); ++i)
          ASSERT_EQ(residual[i], 0.5f * before[i] + gradient[i] - sent[i]) << length << " " << i;
        EXPECT_EQ(blocks_around(*chosen).dense(), sent);
      }
    }
  }
}

TEST(Chunks, MeanIsOverThoseWhoSentANumber) {
  const ChosenNumbers one{.length = 20, .ids = {1, 5}, .values = {2, 4}};
  const ChosenNumbers other{.length = 20, .ids = {5, 19}, .values = {-8, 1}};
  const std::vector<float> mean =
      mean_over_senders(std::vector{one, other}, std::vector<float>{1, 0.5f});
  std::vector<float> expected(20);
  expected[1] = 2;
  expected[5] = (4 - 4) / 2.0f;
  expected[19] = 0.5f;
  EXPECT_EQ(mean, expected);
}

TEST(Chunks, RefuseWhatIsNoUpdate) {
  const std::vector<float> numbers = drawn_normally(5, 5000);
  std::vector<float> residual(numbers.size());
  const auto good = sent_of({.values = Values::kInt4}, numbers, residual);
  const auto why_not = [&](auto change, int64_t length = 5000) {
    std::vector<std::byte> bytes = good;
    change(bytes);
    const auto read = decode_chunks(bytes, length);
    return read ? std::string() : read.error().text();
  };
  const auto set = [](size_t at, int to) {
    return [=](std::vector<std::byte>& bytes) { bytes[at] = static_cast<std::byte>(to); };
  };
  EXPECT_EQ(why_not([](auto&) {}), "");
  EXPECT_THAT(why_not([](auto& bytes) { bytes.resize(9); }), HasSubstr("shorter"));
  EXPECT_THAT(why_not([](auto& bytes) { bytes.pop_back(); }), HasSubstr("bytes instead of"));
  EXPECT_THAT(why_not([](auto&) {}, 5001), HasSubstr("of a tensor of 5000 elements"));
  EXPECT_THAT(why_not(set(0, 0)), HasSubstr("does not begin"));
  EXPECT_THAT(why_not(set(4, 2)), HasSubstr("version 2"));
  EXPECT_THAT(why_not(set(5, 4)), HasSubstr("kind 4"));
  EXPECT_THAT(why_not(set(7, 0x7F)), HasSubstr("numbers of a chunk"));
  EXPECT_THAT(why_not([](auto& bytes) { std::memset(bytes.data() + 24, 0, 3); }),
              HasSubstr("position 0 after 0"));
  std::vector<float> broken = numbers;
  broken[17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(compress_chunks({}, broken, residual).error().text(), HasSubstr("not finite"));
}

}  // namespace
}  // namespace tombolo::compress
