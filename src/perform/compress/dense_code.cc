#include "perform/compress/dense_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace tombolo::compress {
namespace {

static_assert(std::endian::native == std::endian::little, "codes are copied as they lie in memory");

constexpr uint8_t kAsTheyAre = 255;
constexpr size_t kBlockSize = static_cast<size_t>(kBlock);

struct DenseHeader {
  uint32_t magic = 0x55446254;  // "TbDU"
  uint8_t version = 1;
  uint8_t values = 0;
  uint16_t zero = 0;
  uint64_t length = 0;
  uint64_t reserved = 0;
};
static_assert(sizeof(DenseHeader) == 24);

size_t bytes_of_block(std::optional<Values> values) {
  return values ? code_bytes(*values) : kBlockSize * sizeof(float);
}
size_t scales_of(std::optional<Values> values, size_t blocks) {
  return values && has_scales(*values) ? blocks : 0;
}

tl::unexpected<Error> refused_dense(std::string why) {
  return failed(fmt::format("an update of all numbers {}", why));
}

Result<std::optional<Values>> checked_kind(std::span<const std::byte> message, int64_t length) {
  DenseHeader header;
  if (message.size() < sizeof header)
    return refused_dense(fmt::format("of {} bytes is shorter than its header", message.size()));
  std::memcpy(&header, message.data(), sizeof header);
  if (header.magic != DenseHeader{}.magic) return refused_dense("does not begin like one");
  if (header.version != 1)
    return refused_dense(fmt::format("has version {}, this program knows 1", header.version));
  const bool known = header.values < kValuesCount || header.values == kAsTheyAre;
  if (!known || header.zero != 0 || header.reserved != 0)
    return refused_dense(fmt::format("has values of kind {}", header.values));
  if (header.length != static_cast<uint64_t>(length)) {
    return refused_dense(
        fmt::format("is of a tensor of {} elements, not {}", header.length, length));
  }
  const auto values = header.values == kAsTheyAre
                          ? std::nullopt
                          : std::optional(static_cast<Values>(header.values));
  const auto blocks = static_cast<size_t>(blocks_of(length));
  const size_t size = sizeof header + scales_of(values, blocks) + blocks * bytes_of_block(values);
  if (message.size() != size)
    return refused_dense(fmt::format("has {} bytes instead of {}", message.size(), size));
  return values;
}

}  // namespace

Result<std::vector<std::byte>> encode_dense(std::span<const float> numbers,
                                            std::optional<Values> values) {
  const auto strange = std::count_if(numbers.begin(), numbers.end(),
                                     [](float each) { return !std::isfinite(each); });
  if (strange > 0) return failed(fmt::format("{} numbers are not finite", strange));
  const auto length = static_cast<int64_t>(numbers.size());
  const auto blocks = static_cast<size_t>(blocks_of(length));
  const DenseHeader header{.values = values ? static_cast<uint8_t>(*values) : kAsTheyAre,
                           .length = static_cast<uint64_t>(length)};
  const size_t scales = scales_of(values, blocks), each = bytes_of_block(values);
  std::vector<std::byte> message(sizeof header + scales + blocks * each);
  std::memcpy(message.data(), &header, sizeof header);
  auto* scale = reinterpret_cast<uint8_t*>(message.data() + sizeof header);
  uint8_t* code = scale + scales;
  for (size_t b = 0; b < blocks; ++b, code += each) {
    std::array<float, kBlockSize> block{}, sent;
    const size_t begin = b * kBlockSize;
    const size_t count = std::min(kBlockSize, numbers.size() - begin);
    std::copy_n(numbers.begin() + static_cast<ptrdiff_t>(begin), count, block.begin());
    if (!values) {
      std::memcpy(code, block.data(), sizeof block);
      continue;
    }
    const uint8_t its_scale = quantise(*values, block.data(), code, sent.data());
    if (scales > 0) scale[b] = its_scale;
  }
  return message;
}

Result<std::vector<float>> decode_dense(std::span<const std::byte> message, int64_t length) {
  CHECK(length >= 0 && length <= kLengthMax, "a tensor of {} elements", length);
  const std::optional<Values> values = TRY(checked_kind(message, length));
  const auto blocks = static_cast<size_t>(blocks_of(length));
  const size_t scales = scales_of(values, blocks), each = bytes_of_block(values);
  const auto* scale = reinterpret_cast<const uint8_t*>(message.data() + sizeof(DenseHeader));
  const uint8_t* code = scale + scales;
  std::vector<float> numbers(blocks * kBlockSize);
  for (size_t b = 0; b < blocks; ++b, code += each) {
    float* to = numbers.data() + b * kBlockSize;
    if (values) {
      dequantise(*values, code, scales > 0 ? scale[b] : 0, to);
    } else {
      std::memcpy(to, code, each);
    }
  }
  numbers.resize(static_cast<size_t>(length));
  if (!std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); }))
    return refused_dense("has a number that is not finite");
  return numbers;
}

}  // namespace tombolo::compress
