#include "perform/weights/number_type.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace tombolo::weights {
namespace {

uint16_t half_at(const std::byte* at) {
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

// IEEE 754 binary16: one sign bit, five of the exponent, ten of the fraction.
float float_of_f16(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 0x1f) {
    if (fraction != 0) return std::numeric_limits<float>::quiet_NaN();
    return sign * std::numeric_limits<float>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
}

uint16_t bf16_of(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  if (std::isnan(number)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  const uint32_t half_up = 0x7fff + (bits >> 16 & 1);
  return static_cast<uint16_t>((bits + half_up) >> 16);
}

}  // namespace

void to_floats(NumberType type, std::span<const std::byte> bytes, std::span<float> out) {
  CHECK(bytes.size() == out.size() * size_of(type), "{} bytes for {} numbers", bytes.size(),
        out.size());
  if (out.empty()) return;
  if (type == NumberType::kF32) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const uint16_t bits = half_at(bytes.data() + 2 * i);
    out[i] =
        type == NumberType::kF16 ? float_of_f16(bits) : std::bit_cast<float>(uint32_t{bits} << 16);
  }
}

void from_floats(NumberType type, std::span<const float> numbers, std::span<std::byte> out) {
  CHECK(out.size() == numbers.size() * size_of(type), "{} bytes for {} numbers", out.size(),
        numbers.size());
  CHECK(type != NumberType::kF16, "{} is not written", to_name(type));
  if (numbers.empty()) return;
  if (type == NumberType::kF32) {
    std::memcpy(out.data(), numbers.data(), out.size());
    return;
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint16_t bits = bf16_of(numbers[i]);
    std::memcpy(out.data() + 2 * i, &bits, sizeof bits);
  }
}

}  // namespace tombolo::weights
