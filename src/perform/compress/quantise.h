// Values of a block as they travel, and what the receiver makes of them.
//
//   bf16   16 bits each: the upper half of a float, rounded to nearest even, never to infinity
//   int8   scale * q,          q in -127..127, scale the smallest that covers the block's maximum
//   int4   scale * q,          q in -7..7, the same
//   2bit   scale * (q - 1.5),  q in 0..3, scale near 1.25 times the mean magnitude, at which the
//          mean squared error of normally distributed values is least (Max, 1960: 0.996 sigma)
//
// Of int4, byte i has elements i (lower half) and i + 8; of 2bit, elements i, i + 4, i + 8, i + 12,
// the first in the lowest bits.
//
// A scale has 8 bits: a float's exponent and two bits of its fraction, from 2^-48 to 1.75 * 2^15.
// What is larger than a scale can say is clipped: error feedback sends the rest later. Products of
// scale and q are exact, so a residual from which the sent value is taken away is rounded once, and
// has the same bits on every machine.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "perform/compress/blocks.h"

namespace tombolo::compress {

enum class Values : uint8_t { kBf16 = 0, kInt8 = 1, kInt4 = 2, kTwoBit = 3 };
inline constexpr int kValuesCount = 4;

std::string_view values_name(Values values);  // "bf16", "int8", "int4", "2bit"
Result<Values> values_named(std::string_view name);

// A single number as bf16, and back.
constexpr uint16_t to_bf16(float number) {
  constexpr uint32_t kLargest = 0x7f7f0000;
  const auto bits = std::bit_cast<uint32_t>(number);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t nearest = (magnitude + 0x7fff + ((magnitude >> 16) & 1)) & 0xffff0000;
  return static_cast<uint16_t>(((nearest < kLargest ? nearest : kLargest) | (bits & 0x80000000)) >>
                               16);
}
constexpr float from_bf16(uint16_t upper) { return std::bit_cast<float>(uint32_t{upper} << 16); }

// Bytes of a block's codes, without its scale.
size_t code_bytes(Values values);
bool has_scales(Values values);

// Writes the codes of 16 finite numbers, and what the receiver will read in them; returns the scale
// (0 for bf16).
uint8_t quantise(Values values, const float* numbers, uint8_t* codes, float* sent);

// All that quantise() writes, and any other codes but bf16's infinity and NaN, give finite numbers.
void dequantise(Values values, const uint8_t* codes, uint8_t scale, float* numbers);

// A sparse update with its values as they travel.
struct PackedBlocks {
  int64_t length = 0;  // elements of the tensor
  Values values = Values::kBf16;
  std::vector<uint32_t> ids;    // ascending
  std::vector<uint8_t> scales;  // one for each, none for bf16
  std::vector<uint8_t> codes;   // code_bytes() for each

  // Makes room for, or cuts down to, this many blocks.
  void resize(size_t blocks);
  bool operator==(const PackedBlocks&) const = default;
};

// What the receiver reads; `to` keeps its memory. Values beyond the tensor's end become zero.
void unpack(const PackedBlocks& packed, Blocks& to);
PackedBlocks pack(const Blocks& blocks, Values values);

}  // namespace tombolo::compress
