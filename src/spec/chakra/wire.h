// Protobuf's wire format: a message is a run of fields, each a key and a value.
//
// A key is 8 * number + kind. Integers come as varints (7 bits a byte, the lowest first, the top
// bit says that more follow) or as 4 or 8 bytes, texts and messages as a length and their bytes.
// The reader points into the bytes that it is given, copies nothing and never looks beyond them: a
// length near 2^64 is larger than what is left, and that is all that matters about it.
//
// Reference: protobuf.dev, "Encoding". Why not libprotobuf: docs/decisions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tombolo::chakra {

enum class WireKind : uint8_t { kVarint = 0, kEight = 1, kBytes = 2, kFour = 5 };

struct WireField {
  uint32_t number = 0;
  WireKind kind = WireKind::kVarint;
  uint64_t value = 0;      // of kVarint, kEight and kFour, as written
  std::string_view bytes;  // of kBytes
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  bool done() const { return rest_.empty(); }
  // The next field; false, with a problem(), if what comes is none.
  bool next(WireField& field);
  // Elements of a packed list.
  bool varint(uint64_t& value);
  bool fixed(int bytes, uint64_t& value);  // 4 or 8

  // Why the last call failed, as a clause: "a length of 99 with 3 bytes left".
  const std::string& problem() const { return problem_; }

 private:
  bool fail(std::string why);

  std::string_view rest_;
  std::string problem_;
};

inline int64_t from_zigzag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}
inline uint64_t to_zigzag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}

void append_varint(std::string& out, uint64_t value);
void append_fixed(std::string& out, int bytes, uint64_t value);
void append_key(std::string& out, uint32_t number, WireKind kind);
void append_bytes(std::string& out, uint32_t number, std::string_view bytes);  // with key, length

}  // namespace tombolo::chakra
