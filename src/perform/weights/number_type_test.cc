#include "perform/weights/number_type.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace tombolo::weights {
namespace {

std::vector<std::byte> bytes_of(std::initializer_list<uint16_t> halves) {
  std::vector<std::byte> out(2 * halves.size());
  std::memcpy(out.data(), halves.begin(), out.size());
  return out;
}

TEST(NumberType, ReadsHalfPrecision) {
  // IEEE 754: 1, -2, the largest, the smallest normal and subnormal ones, zeros, infinity.
  const auto bytes = bytes_of({0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x0000, 0x8000, 0x7c00});
  std::vector<float> out(8);
  to_floats(NumberType::kF16, bytes, out);
  const std::vector<float> expected = {
      1, -2, 65504, std::ldexp(1.0F, -14), std::ldexp(1.0F, -24), 0, -0.0F, INFINITY};
  EXPECT_EQ(out, expected);
  EXPECT_TRUE(std::signbit(out[6]));
  std::vector<float> one(1);
  to_floats(NumberType::kF16, bytes_of({0x7e01}), one);
  EXPECT_TRUE(std::isnan(one[0]));
}

// Every bfloat16 is a float, so none changes on the way there and back but the payload of a NaN.
TEST(NumberType, EveryBf16ComesBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto bytes = bytes_of({static_cast<uint16_t>(bits)});
    std::vector<float> number(1);
    to_floats(NumberType::kBf16, bytes, number);
    std::vector<std::byte> back(2);
    from_floats(NumberType::kBf16, number, back);
    if (std::isnan(number[0])) {
      to_floats(NumberType::kBf16, back, number);
      EXPECT_TRUE(std::isnan(number[0])) << bits;
    } else {
      EXPECT_EQ(back, bytes) << bits;
    }
  }
}

// 1 + 2^-7 follows 1. Half way between goes to the even one, 1; anything above goes up.
TEST(NumberType, Bf16RoundsToNearest) {
  const auto rounded = [](float number) {
    std::vector<std::byte> bytes(2);
    from_floats(NumberType::kBf16, std::vector<float>{number}, bytes);
    std::vector<float> out(1);
    to_floats(NumberType::kBf16, bytes, out);
    return out[0];
  };
  const float step = std::ldexp(1.0F, -7), half = step / 2;
  EXPECT_EQ(rounded(1 + half), 1);
  EXPECT_EQ(rounded(std::nextafter(1 + half, 2.0F)), 1 + step);
  EXPECT_EQ(rounded(1 + step + half), 1 + 2 * step);
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), INFINITY);
}

}  // namespace
}  // namespace tombolo::weights
