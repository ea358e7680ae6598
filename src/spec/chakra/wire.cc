#include "spec/chakra/wire.h"

#include "base/check.h"

namespace tombolo::chakra {

bool WireReader::fail(std::string why) {
  problem_ = std::move(why);
  return false;
}

bool WireReader::varint(uint64_t& value) {
  value = 0;
  for (size_t i = 0; i < rest_.size(); ++i) {
    const auto byte = static_cast<uint8_t>(rest_[i]);
    if (i == 9 && byte > 1) return fail("a number of more than 64 bits");
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      rest_.remove_prefix(i + 1);
      return true;
    }
  }
  return fail("its bytes end inside a number");
}

bool WireReader::fixed(int bytes, uint64_t& value) {
  CHECK(bytes == 4 || bytes == 8, "a number of {} bytes", bytes);
  const auto size = static_cast<size_t>(bytes);
  if (rest_.size() < size) return fail("its bytes end inside a number");
  value = 0;
  for (size_t i = 0; i < size; ++i) {
    value |= static_cast<uint64_t>(static_cast<uint8_t>(rest_[i])) << (8 * i);
  }
  rest_.remove_prefix(size);
  return true;
}

bool WireReader::next(WireField& field) {
  uint64_t key = 0;
  if (!varint(key)) return false;
  if (key < 8 || key >> 32 != 0) return fail(fmt::format("{} is no key of a field", key));
  field.number = static_cast<uint32_t>(key >> 3);
  field.kind = static_cast<WireKind>(key & 7);
  switch (field.kind) {
    case WireKind::kVarint:
      return varint(field.value);
    case WireKind::kEight:
      return fixed(8, field.value);
    case WireKind::kFour:
      return fixed(4, field.value);
    case WireKind::kBytes: {
      uint64_t size = 0;
      if (!varint(size)) return false;
      if (size > rest_.size()) {
        return fail(fmt::format("field {} says {} bytes, but {} are left", field.number, size,
                                rest_.size()));
      }
      field.bytes = rest_.substr(0, size);
      rest_.remove_prefix(size);
      return true;
    }
  }
  return fail(fmt::format("field {} is of kind {}, which is not used", field.number, key & 7));
}

void append_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void append_fixed(std::string& out, int bytes, uint64_t value) {
  CHECK(bytes == 4 || bytes == 8, "a number of {} bytes", bytes);
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

void append_key(std::string& out, uint32_t number, WireKind kind) {
  CHECK(number >= 1 && number < uint32_t{1} << 29, "a field cannot have the number {}", number);
  append_varint(out, uint64_t{number} << 3 | static_cast<uint64_t>(kind));
}

void append_bytes(std::string& out, uint32_t number, std::string_view bytes) {
  append_key(out, number, WireKind::kBytes);
  append_varint(out, bytes.size());
  out.append(bytes);
}

}  // namespace tombolo::chakra
