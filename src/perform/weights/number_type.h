// Numbers of weight files as floats, and back. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "base/fields.h"

namespace tombolo::weights {

// As safetensors names them, little-endian.
enum class NumberType { kF32, kBf16, kF16 };
constexpr auto enum_names(NumberType) {
  return std::to_array<EnumName<NumberType>>(
      {{NumberType::kF32, "F32"}, {NumberType::kBf16, "BF16"}, {NumberType::kF16, "F16"}});
}
constexpr size_t size_of(NumberType type) { return type == NumberType::kF32 ? 4 : 2; }

// Exact: every number of these types is a float. CHECKs that the sizes fit.
void to_floats(NumberType type, std::span<const std::byte> bytes, std::span<float> out);

// F32 is exact, BF16 rounds to nearest, ties to even; not a number stays so. F16 is not written.
void from_floats(NumberType type, std::span<const float> numbers, std::span<std::byte> out);

}  // namespace tombolo::weights
