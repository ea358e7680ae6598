#include "perform/compress/dense_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"

namespace tombolo::compress {
namespace {

std::vector<float> normal_numbers(Random& random, size_t count) {
  std::vector<float> out(count);
  for (float& each : out) each = static_cast<float>(random.normal());
  return out;
}

TEST(DenseCode, HasTheBytesThatTheHeaderSays) {
  Random random(1);
  const std::vector<float> numbers = normal_numbers(random, 1601);  // 101 blocks
  EXPECT_EQ(encode_dense(numbers, std::nullopt)->size(), 24u + 101 * 64);
  EXPECT_EQ(encode_dense(numbers, Values::kBf16)->size(), 24u + 101 * 32);
  EXPECT_EQ(encode_dense(numbers, Values::kInt8)->size(), 24u + 101 * 17);
  EXPECT_EQ(encode_dense(numbers, Values::kInt4)->size(), 24u + 101 * 9);
  EXPECT_EQ(encode_dense(numbers, Values::kTwoBit)->size(), 24u + 101 * 5);
}

TEST(DenseCode, Fp32ComesAsItIsAndOthersAsTheyAreQuantised) {
  Random random(2);
  for (const size_t count : {0, 1, 15, 16, 17, 1000}) {
    const std::vector<float> numbers = normal_numbers(random, count);
    const auto length = static_cast<int64_t>(count);
    EXPECT_EQ(*decode_dense(*encode_dense(numbers, std::nullopt), length), numbers);
    for (const Values values : {Values::kBf16, Values::kInt8, Values::kInt4, Values::kTwoBit}) {
      Blocks all{.length = length, .ids = {}, .values = numbers};
      for (int64_t b = 0; b < blocks_of(length); ++b) all.ids.push_back(static_cast<uint32_t>(b));
      all.values.resize(all.ids.size() * 16);
      Blocks sent;
      unpack(pack(all, values), sent);
      EXPECT_EQ(*decode_dense(*encode_dense(numbers, values), length), sent.dense());
    }
  }
}

TEST(DenseCode, SaysWhyItRefuses) {
  const std::vector<float> numbers(20, 1.0f);
  const std::vector<std::byte> good = *encode_dense(numbers, std::nullopt);
  const auto refusal = [&](std::vector<std::byte> message, int64_t length = 20) {
    const auto decoded = decode_dense(message, length);
    return decoded ? "accepted" : decoded.error().message;
  };
  const auto with = [&](size_t at, int byte) {
    std::vector<std::byte> changed = good;
    changed[at] = static_cast<std::byte>(byte);
    return changed;
  };
  EXPECT_EQ(refusal(good), "accepted");
  EXPECT_EQ(refusal({}), "an update of all numbers of 0 bytes is shorter than its header");
  EXPECT_EQ(refusal(with(0, 0)), "an update of all numbers does not begin like one");
  EXPECT_EQ(refusal(with(4, 2)), "an update of all numbers has version 2, this program knows 1");
  EXPECT_EQ(refusal(with(5, 9)), "an update of all numbers has values of kind 9");
  EXPECT_EQ(refusal(good, 21), "an update of all numbers is of a tensor of 20 elements, not 21");
  EXPECT_EQ(refusal(with(5, 1)), "an update of all numbers has 152 bytes instead of 58");
  // The first number is 1, 0x3f800000: with an exponent of ones infinity, one less a large number.
  EXPECT_EQ(refusal(with(27, 0x7f)), "an update of all numbers has a number that is not finite");
  EXPECT_EQ(refusal(with(27, 0x7e)), "accepted");
}

TEST(DenseCode, SendsNoNumberThatIsNotFinite) {
  std::vector<float> numbers(40, 1.0f);
  numbers[17] = std::numeric_limits<float>::infinity();
  numbers[18] = std::nanf("");
  const auto sent = encode_dense(numbers, Values::kInt4);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().message, "2 numbers are not finite");
}

}  // namespace
}  // namespace tombolo::compress
