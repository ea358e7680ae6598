#include "perform/compress/quantise.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace tombolo::compress {
namespace {

constexpr std::array<std::string_view, kValuesCount> kNames = {"bf16", "int8", "int4", "2bit"};

// A scale's code is the float's exponent and upper two fraction bits, counted from 2^-48.
constexpr uint32_t kScaleShift = 21;
constexpr uint32_t kScaleZero = (127 - 48) << 2;

uint8_t as_scale(uint32_t exponent_and_fraction) {
  const uint32_t low = std::max(exponent_and_fraction, kScaleZero) - kScaleZero;
  return static_cast<uint8_t>(std::min<uint32_t>(low, 255));
}

// The smallest scale that is not less.
uint8_t scale_above(float x) {
  constexpr uint32_t kRest = (1u << kScaleShift) - 1;
  return as_scale((std::bit_cast<uint32_t>(x) + kRest) >> kScaleShift);
}

uint8_t scale_near(float x) {
  return as_scale((std::bit_cast<uint32_t>(x) + (1u << (kScaleShift - 1))) >> kScaleShift);
}

float scale_of(uint8_t code) {
  return std::bit_cast<float>((uint32_t{code} + kScaleZero) << kScaleShift);
}

// To nearest even, for magnitudes below 2^22: the addition pushes the fraction out.
float rounded(float x) {
  constexpr float kPush = 12582912.0f;  // 1.5 * 2^23
  return (x + kPush) - kPush;
}

float clamped(float x, float limit) { return std::min(std::max(x, -limit), limit); }

void to_bf16(const float* numbers, uint8_t* codes, float* sent) {
  std::array<uint16_t, kBlock> upper;
  for (size_t i = 0; i < kBlock; ++i) {
    upper[i] = compress::to_bf16(numbers[i]);
    sent[i] = compress::from_bf16(upper[i]);
  }
  std::memcpy(codes, upper.data(), sizeof upper);
}

void from_bf16(const uint8_t* codes, float* numbers) {
  std::array<uint16_t, kBlock> upper;
  std::memcpy(upper.data(), codes, sizeof upper);
  for (size_t i = 0; i < kBlock; ++i) numbers[i] = compress::from_bf16(upper[i]);
}

// Magnitudes combined in halves, 8 by 8 down to one by one, which lanes can do side by side.
template <class Combine>
inline float halved(const float* numbers, const Combine& combine) {
  std::array<float, kBlock> x;
  for (size_t i = 0; i < kBlock; ++i) x[i] = std::fabs(numbers[i]);
  for (size_t i = 0; i < 8; ++i) x[i] = combine(x[i], x[i + 8]);
  for (size_t i = 0; i < 4; ++i) x[i] = combine(x[i], x[i + 4]);
  return combine(combine(x[0], x[2]), combine(x[1], x[3]));
}

float largest_of(const float* numbers) {
  return halved(numbers, [](float a, float b) { return a > b ? a : b; });
}

float sum_of(const float* numbers) {
  return halved(numbers, [](float a, float b) { return a + b; });
}

void to_integers(const float* numbers, float scale, float limit, float* integers, float* sent) {
  const float inverse = 1 / scale;
  for (int64_t i = 0; i < kBlock; ++i) {
    integers[i] = rounded(clamped(numbers[i] * inverse, limit));
    sent[i] = scale * integers[i];
  }
}

uint8_t to_int8(const float* numbers, uint8_t* codes, float* sent) {
  const uint8_t scale = scale_above(largest_of(numbers) * (1.0f / 127));
  std::array<float, kBlock> q;
  to_integers(numbers, scale_of(scale), 127, q.data(), sent);
  for (size_t i = 0; i < kBlock; ++i) codes[i] = static_cast<uint8_t>(static_cast<int>(q[i]));
  return scale;
}

uint8_t to_int4(const float* numbers, uint8_t* codes, float* sent) {
  const uint8_t scale = scale_above(largest_of(numbers) * (1.0f / 7));
  std::array<float, kBlock> q;
  to_integers(numbers, scale_of(scale), 7, q.data(), sent);
  for (size_t i = 0; i < kBlock / 2; ++i) {
    const int low = static_cast<int>(q[i]) & 15, high = static_cast<int>(q[i + 8]) & 15;
    codes[i] = static_cast<uint8_t>(low | (high << 4));
  }
  return scale;
}

uint8_t to_two_bits(const float* numbers, uint8_t* codes, float* sent) {
  const uint8_t code = scale_near(sum_of(numbers) * (1.25f / kBlock));
  const float scale = scale_of(code), inverse = 1 / scale;
  std::array<int32_t, kBlock> q;
  for (size_t i = 0; i < kBlock; ++i) {
    // Below 0 lie 0 (under -1) and 1, from 0 on 2 and 3 (from 1 on), in units of the scale.
    const float x = numbers[i] * inverse;
    q[i] = (x >= -1 ? 1 : 0) + (x >= 0 ? 1 : 0) + (x >= 1 ? 1 : 0);
    sent[i] = scale * (static_cast<float>(q[i]) - 1.5f);
  }
  for (size_t i = 0; i < kBlock / 4; ++i) {
    codes[i] = static_cast<uint8_t>(q[i] | (q[i + 4] << 2) | (q[i + 8] << 4) | (q[i + 12] << 6));
  }
  return code;
}

}  // namespace

std::string_view values_name(Values values) { return kNames.at(static_cast<size_t>(values)); }

Result<Values> values_named(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Values>(i);
  }
  return unusable(fmt::format("unknown values \"{}\"", name), "one of bf16, int8, int4, 2bit");
}

size_t code_bytes(Values values) {
  constexpr std::array<size_t, kValuesCount> kBytes = {32, 16, 8, 4};
  return kBytes.at(static_cast<size_t>(values));
}

bool has_scales(Values values) { return values != Values::kBf16; }

uint8_t quantise(Values values, const float* numbers, uint8_t* codes, float* sent) {
  switch (values) {
    case Values::kBf16:
      to_bf16(numbers, codes, sent);
      return 0;
    case Values::kInt8:
      return to_int8(numbers, codes, sent);
    case Values::kInt4:
      return to_int4(numbers, codes, sent);
    case Values::kTwoBit:
      return to_two_bits(numbers, codes, sent);
  }
  CHECK(false, "values {}", static_cast<int>(values));
}

void dequantise(Values values, const uint8_t* codes, uint8_t scale_code, float* numbers) {
  const float scale = scale_of(scale_code);
  switch (values) {
    case Values::kBf16:
      return from_bf16(codes, numbers);
    case Values::kInt8:
      for (size_t i = 0; i < kBlock; ++i) {
        numbers[i] = scale * static_cast<float>(static_cast<int8_t>(codes[i]));
      }
      return;
    case Values::kInt4:
      for (size_t i = 0; i < kBlock; ++i) {
        const int q = (codes[i % 8] >> (4 * (i / 8))) & 15;
        numbers[i] = scale * static_cast<float>(q < 8 ? q : q - 16);
      }
      return;
    case Values::kTwoBit:
      for (size_t i = 0; i < kBlock; ++i) {
        const int q = (codes[i % 4] >> (2 * (i / 4))) & 3;
        numbers[i] = scale * (static_cast<float>(q) - 1.5f);
      }
      return;
  }
}

void PackedBlocks::resize(size_t blocks) {
  ids.resize(blocks);
  scales.resize(has_scales(values) ? blocks : 0);
  codes.resize(blocks * code_bytes(values));
}

void unpack(const PackedBlocks& packed, Blocks& to) {
  const size_t count = packed.ids.size(), bytes = code_bytes(packed.values);
  CHECK(packed.codes.size() == count * bytes, "{} bytes of {} blocks", packed.codes.size(), count);
  to.length = packed.length;
  to.ids = packed.ids;
  to.values.resize(count * kBlock);
  for (size_t i = 0; i < count; ++i) {
    dequantise(packed.values, packed.codes.data() + i * bytes,
               packed.scales.empty() ? uint8_t{0} : packed.scales[i],
               to.values.data() + i * kBlock);
  }
  if (count == 0) return;
  const int64_t over = (int64_t{to.ids.back()} + 1) * kBlock - to.length;
  CHECK(over < kBlock, "block {} of a tensor of {} elements", to.ids.back(), to.length);
  if (over > 0) std::fill(to.values.end() - over, to.values.end(), 0.0f);
}

PackedBlocks pack(const Blocks& blocks, Values values) {
  PackedBlocks packed{.length = blocks.length, .values = values};
  packed.resize(blocks.ids.size());
  packed.ids = blocks.ids;
  std::array<float, kBlock> sent;
  for (size_t i = 0; i < blocks.ids.size(); ++i) {
    const uint8_t scale = quantise(values, blocks.values.data() + i * kBlock,
                                   packed.codes.data() + i * code_bytes(values), sent.data());
    if (has_scales(values)) packed.scales[i] = scale;
  }
  return packed;
}

}  // namespace tombolo::compress
