#include "perform/compress/update_code.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/check.h"

namespace tombolo::compress {
namespace {

static_assert(std::endian::native == std::endian::little, "codes are copied as they lie in memory");

constexpr uint32_t kMagic = 0x55536254;  // "TbSU"
constexpr uint8_t kVersion = 1;
constexpr size_t kNumberBytesMax = 5;

struct Header {
  uint32_t magic = kMagic;
  uint8_t version = kVersion;
  uint8_t values = 0;
  uint16_t zero = 0;
  uint64_t length = 0;
  uint32_t blocks = 0;
  uint32_t number_bytes = 0;
};
static_assert(sizeof(Header) == 24);

void append_number(uint32_t number, std::vector<uint8_t>& to) {
  for (; number >= 128; number >>= 7) to.push_back(static_cast<uint8_t>(number | 128));
  to.push_back(static_cast<uint8_t>(number));
}

std::vector<uint8_t> encoded_ids(const PackedBlocks& update) {
  std::vector<uint8_t> bytes;
  bytes.reserve(update.ids.size() * 2);
  int64_t before = -1;
  for (const uint32_t id : update.ids) {
    CHECK(int64_t{id} > before, "block {} after {}", id, before);
    append_number(static_cast<uint32_t>(int64_t{id} - before - 1), bytes);
    before = id;
  }
  CHECK(before < blocks_of(update.length), "block {} of a tensor of {} elements", before,
        update.length);
  return bytes;
}

tl::unexpected<Error> refused(std::string why) {
  return failed(fmt::format("a sparse update {}", why));
}

// One number from `at` on, which moves behind it.
Result<uint32_t> take_number(std::span<const uint8_t> bytes, size_t& at) {
  uint64_t number = 0;
  for (size_t i = 0; i < kNumberBytesMax; ++i) {
    if (at >= bytes.size()) return refused("ends within a block's number");
    const uint8_t byte = bytes[at++];
    number |= uint64_t{byte & 127u} << (7 * i);
    if (byte >= 128) continue;
    if (byte == 0 && i > 0) return refused("writes a block's number longer than needed");
    if (number > UINT32_MAX) break;
    return static_cast<uint32_t>(number);
  }
  return refused("has a block's number of more than 32 bits");
}

Result<std::vector<uint32_t>> decoded_ids(std::span<const uint8_t> bytes, size_t count,
                                          int64_t blocks) {
  std::vector<uint32_t> ids(count);
  size_t at = 0;
  int64_t next = 0;
  for (uint32_t& id : ids) {
    next += TRY(take_number(bytes, at));
    if (next >= blocks) {
      return refused(fmt::format("has block {} of a tensor of {} blocks", next, blocks));
    }
    id = static_cast<uint32_t>(next++);
  }
  if (at != bytes.size()) {
    return refused(fmt::format("has {} bytes behind its last number", bytes.size() - at));
  }
  return ids;
}

Result<Header> checked_header(std::span<const std::byte> message, int64_t length,
                              int64_t blocks_max) {
  Header header;
  if (message.size() < sizeof header) {
    return refused(fmt::format("of {} bytes is shorter than its header", message.size()));
  }
  std::memcpy(&header, message.data(), sizeof header);
  if (header.magic != kMagic) return refused("does not begin like one");
  if (header.version != kVersion) {
    return refused(fmt::format("has version {}, this program knows 1", header.version));
  }
  if (header.values >= kValuesCount || header.zero != 0) {
    return refused(fmt::format("has values of kind {} and {}", header.values, header.zero));
  }
  if (header.length != static_cast<uint64_t>(length)) {
    return refused(fmt::format("is of a tensor of {} elements, not {}", header.length, length));
  }
  if (header.blocks > blocks_max) {
    return refused(fmt::format("has {} blocks, at most {} are due", header.blocks, blocks_max));
  }
  const auto values = static_cast<Values>(header.values);
  const uint64_t per_block = code_bytes(values) + (has_scales(values) ? 1 : 0);
  const uint64_t size = sizeof header + uint64_t{header.number_bytes} + header.blocks * per_block;
  if (message.size() != size) {
    return refused(fmt::format("of {} blocks has {} bytes instead of {}", header.blocks,
                               message.size(), size));
  }
  return header;
}

bool all_finite(std::span<const uint8_t> bf16) {
  for (size_t i = 1; i < bf16.size(); i += 2) {
    if ((bf16[i] & 0x7f) == 0x7f && (bf16[i - 1] & 0x80) != 0) return false;
  }
  return true;
}

}  // namespace

std::vector<std::byte> encode(const PackedBlocks& update) {
  const size_t count = update.ids.size(), scales = has_scales(update.values) ? count : 0;
  CHECK(update.scales.size() == scales && update.codes.size() == count * code_bytes(update.values),
        "{} scales and {} bytes of {} blocks", update.scales.size(), update.codes.size(), count);
  const std::vector<uint8_t> ids = encoded_ids(update);
  CHECK(count <= UINT32_MAX && ids.size() <= UINT32_MAX, "{} blocks", count);
  const Header header{.values = static_cast<uint8_t>(update.values),
                      .length = static_cast<uint64_t>(update.length),
                      .blocks = static_cast<uint32_t>(count),
                      .number_bytes = static_cast<uint32_t>(ids.size())};
  std::vector<std::byte> message(sizeof header + ids.size() + scales + update.codes.size());
  std::byte* to = message.data();
  const auto append = [&](const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    to += bytes;
  };
  append(&header, sizeof header);
  append(ids.data(), ids.size());
  append(update.scales.data(), scales);
  append(update.codes.data(), update.codes.size());
  return message;
}

Result<PackedBlocks> decode(std::span<const std::byte> message, int64_t length,
                            int64_t blocks_max) {
  const Header header = TRY(checked_header(message, length, blocks_max));
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(message.data()),
                                       message.size());
  // Every number has a byte at least: a count that is more cannot be believed.
  if (header.blocks > header.number_bytes) {
    return refused(
        fmt::format("has {} blocks in {} bytes of numbers", header.blocks, header.number_bytes));
  }
  PackedBlocks update{.length = length, .values = static_cast<Values>(header.values)};
  update.ids = TRY(decoded_ids(bytes.subspan(sizeof header, header.number_bytes), header.blocks,
                               blocks_of(length)));
  const size_t scales = has_scales(update.values) ? header.blocks : 0;
  const auto rest = bytes.subspan(sizeof header + header.number_bytes);
  update.scales.assign(rest.begin(), rest.begin() + static_cast<int64_t>(scales));
  update.codes.assign(rest.begin() + static_cast<int64_t>(scales), rest.end());
  if (update.values == Values::kBf16 && !all_finite(update.codes)) {
    return refused("has a value that is not finite");
  }
  return update;
}

}  // namespace tombolo::compress
