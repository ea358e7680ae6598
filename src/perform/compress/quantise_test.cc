#include "perform/compress/quantise.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace tombolo::compress {
namespace {

using Sixteen = std::array<float, kBlock>;

struct Sent {
  Sixteen numbers;
  uint8_t scale;
};

// What the sender says was sent, after checking that the receiver reads the same.
Sent sent_of(Values values, const Sixteen& numbers) {
  std::array<uint8_t, 32> codes{};
  Sent sent{};
  sent.scale = quantise(values, numbers.data(), codes.data(), sent.numbers.data());
  Sixteen read;
  dequantise(values, codes.data(), sent.scale, read.data());
  EXPECT_EQ(read, sent.numbers);
  return sent;
}

Sixteen normal_block(Random& random, double scale) {
  Sixteen numbers;
  for (float& x : numbers) x = static_cast<float>(random.normal() * scale);
  return numbers;
}

TEST(Bf16, RoundsToNearestEvenAndNeverToInfinity) {
  const float largest = std::numeric_limits<float>::max();
  // 8 bits of fraction: near 1 the step is 1/128. 1 + 1/256 is half way, and goes to even.
  const Sixteen numbers = {1,       1 + 1.0f / 256, 1 + 3.0f / 256, -(1 + 1.0f / 256 + 1e-6f),
                           largest, -largest,       1e-45f,         0};
  const Sent sent = sent_of(Values::kBf16, numbers);
  EXPECT_EQ(sent.numbers[0], 1);
  EXPECT_EQ(sent.numbers[1], 1);
  EXPECT_EQ(sent.numbers[2], 1 + 4.0f / 256);
  EXPECT_EQ(sent.numbers[3], -(1 + 2.0f / 256));
  EXPECT_EQ(sent.numbers[4], 0x1.fep127f);
  EXPECT_EQ(sent.numbers[5], -0x1.fep127f);
  EXPECT_EQ(sent.numbers[6], 0);
}

TEST(Int8, TakesTheSmallestScaleThatCoversTheBlock) {
  // 127 / 127 = 1 is a scale; 128 / 127 needs the next, 1.25.
  Sixteen numbers{127, -127, 3.4f, -3.5f, 2.5f};
  EXPECT_EQ(sent_of(Values::kInt8, numbers).numbers, (Sixteen{127, -127, 3, -4, 2}));
  numbers = {128, 1};
  EXPECT_EQ(sent_of(Values::kInt8, numbers).numbers, (Sixteen{127.5f, 1.25f}));  // 102, 1
}

TEST(Int4, HoldsSevenSteps) {
  const Sixteen numbers{7, -7, 1.4f, -1.6f, 0.4f};
  EXPECT_EQ(sent_of(Values::kInt4, numbers).numbers, (Sixteen{7, -7, 1, -2, 0}));
}

TEST(TwoBits, HaveFourLevels) {
  // Mean magnitude 0.8, scale 1: levels at 0.5 and 1.5 on either side.
  Sixteen numbers;
  for (size_t i = 0; i < 16; ++i) {
    numbers[i] = std::array{0.2f, -0.2f, 1.4f, -1.4f}[i % 4];
  }
  const Sixteen sent = sent_of(Values::kTwoBit, numbers).numbers;
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(sent[i], (std::array{0.5f, -0.5f, 1.5f, -1.5f}[i % 4]));
  }
}

// Half a step at most, a step being at most 1.25 / limit of the maximum; for two bits the error of
// normal values is near 0.119 of their variance at the best scale (Max, 1960), and scales here are
// up to an eighth away from it and fitted to 16 values.
TEST(Integers, ErrAsLittleAsTheirStep) {
  Random random(1);
  double square = 0, error = 0;
  for (int round = 0; round < 2000; ++round) {
    const Sixteen numbers = normal_block(random, std::exp2(random.uniform() * 40 - 30));
    float largest = 0;
    for (const float x : numbers) largest = std::max(largest, std::fabs(x));
    const Sixteen eight = sent_of(Values::kInt8, numbers).numbers;
    const Sixteen four = sent_of(Values::kInt4, numbers).numbers;
    const Sixteen two = sent_of(Values::kTwoBit, numbers).numbers;
    for (size_t i = 0; i < 16; ++i) {
      EXPECT_LE(std::fabs(numbers[i] - eight[i]), largest * 0.626f / 127);
      EXPECT_LE(std::fabs(numbers[i] - four[i]), largest * 0.626f / 7);
      error += std::pow((numbers[i] - two[i]) / largest, 2);
      square += std::pow(numbers[i] / largest, 2);
    }
  }
  EXPECT_LT(error / square, 0.15);
}

TEST(Integers, ClipWhatNoScaleCovers) {
  Sixteen numbers{};
  numbers[0] = 1e30f;
  for (const Values values : {Values::kInt8, Values::kInt4, Values::kTwoBit}) {
    const Sent sent = sent_of(values, numbers);
    EXPECT_EQ(sent.scale, 255);
    EXPECT_TRUE(std::isfinite(sent.numbers[0]));
    EXPECT_GT(sent.numbers[0], 57343 * 0.5f);
  }
  numbers[0] = 1e-30f;
  EXPECT_EQ(sent_of(Values::kInt8, numbers).numbers, Sixteen{});
}

TEST(Pack, MakesNothingOfWhatLiesBeyondTheEnd) {
  Blocks blocks{.length = 17, .ids = {0, 1}, .values = std::vector<float>(32, 1.0f)};
  for (size_t i = 17; i < 32; ++i) blocks.values[i] = 0;
  for (const Values values : {Values::kBf16, Values::kInt8, Values::kInt4, Values::kTwoBit}) {
    Blocks read;
    unpack(pack(blocks, values), read);
    EXPECT_EQ(read.ids, blocks.ids);
    for (size_t i = 17; i < 32; ++i) EXPECT_EQ(read.values[i], 0);
  }
}

TEST(Values, HaveNames) {
  for (int i = 0; i < kValuesCount; ++i) {
    const auto values = static_cast<Values>(i);
    EXPECT_EQ(values_named(values_name(values)).value(), values);
  }
  EXPECT_EQ(values_named("int3").error().text(),
            "unknown values \"int3\"\n  try one of bf16, int8, int4, 2bit");
}

}  // namespace
}  // namespace tombolo::compress
