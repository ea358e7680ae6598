#include "perform/board/event_file.h"

#include <array>
#include <bit>

#include "spec/chakra/wire.h"

namespace tombolo::board {
namespace {

using chakra::append_bytes;
using chakra::append_fixed;
using chakra::append_key;
using chakra::append_varint;
using chakra::WireKind;

constexpr uint32_t kCastagnoli = 0x82F63B78;  // the polynomial, lowest power first
constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t rest = i;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? kCastagnoli : 0);
    table[i] = rest;
  }
  return table;
}();

uint32_t masked(uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8; }

std::string record_of(std::string_view event) {
  std::string out;
  append_fixed(out, 8, event.size());
  append_fixed(out, 4, masked(crc32c(out)));
  out += event;
  append_fixed(out, 4, masked(crc32c(event)));
  return out;
}

std::string event_at(double wall_time, int64_t step) {
  std::string out;
  append_key(out, 1, WireKind::kEight);
  append_fixed(out, 8, std::bit_cast<uint64_t>(wall_time));
  append_key(out, 2, WireKind::kVarint);
  append_varint(out, static_cast<uint64_t>(step));
  return out;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF];
  return ~crc;
}

std::string version_record(double wall_time) {
  std::string event = event_at(wall_time, 0);
  append_bytes(event, 3, "brain.Event:2");
  return record_of(event);
}

std::string start_record(double wall_time, int64_t step) {
  std::string session;
  append_key(session, 1, WireKind::kVarint);
  append_varint(session, 1);  // SessionLog.START
  std::string event = event_at(wall_time, step);
  append_bytes(event, 7, session);
  return record_of(event);
}

std::string scalars_record(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    std::string each;
    append_bytes(each, 1, tag);
    append_key(each, 2, WireKind::kFour);
    append_fixed(each, 4, std::bit_cast<uint32_t>(static_cast<float>(value)));
    append_bytes(summary, 1, each);
  }
  std::string event = event_at(wall_time, step);
  append_bytes(event, 5, summary);
  return record_of(event);
}

}  // namespace tombolo::board
