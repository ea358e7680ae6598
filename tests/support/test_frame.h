// Frames for tests, built field by field as the kernel builds them.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "lab/wanem/packet.h"

namespace tombolo::wanem {

struct TestFrame {
  uint32_t source = 0x0a4d0101;
  uint32_t destination = 0x0a4d0201;
  uint32_t ip_options = 0;  // bytes, a multiple of 4
  uint32_t tcp_options = 12;
  uint32_t payload = 0;
  uint32_t gso_size = 0;  // 0: no super-frame
  uint32_t sequence = 1000;
  uint32_t identification = 7;
  uint8_t flags = 0x10;  // ACK
  uint8_t gso_type = 1;  // TCP/IPv4; 0x80 adds ECN

  uint32_t ip_header() const { return 20 + ip_options; }
  uint32_t header() const { return ip_header() + 20 + tcp_options; }
  static uint8_t payload_byte(uint32_t i) { return static_cast<uint8_t>(i * 37 + i / 251); }

  std::vector<uint8_t> bytes() const {
    const uint32_t length = header() + payload;
    std::vector<uint8_t> out(kVnetHeader + length);
    const auto host16 = [&](size_t at, uint32_t v) {
      const auto narrow = static_cast<uint16_t>(v);
      std::memcpy(&out[at], &narrow, 2);
    };
    uint8_t* ip = &out[kVnetHeader];
    uint8_t* tcp = ip + ip_header();
    const auto wire16 = [](uint8_t* at, uint32_t v) {
      at[0] = static_cast<uint8_t>(v >> 8);
      at[1] = static_cast<uint8_t>(v);
    };
    const auto wire32 = [&](uint8_t* at, uint32_t v) {
      wire16(at, v >> 16);
      wire16(at + 2, v);
    };
    out[0] = 1;  // NEEDS_CSUM
    out[1] = gso_size ? gso_type : 0;
    host16(2, header());
    host16(4, gso_size);
    host16(6, ip_header());
    host16(8, 16);
    ip[0] = static_cast<uint8_t>(0x40 | ip_header() / 4);
    wire16(ip + 2, length);
    wire16(ip + 4, identification);
    wire16(ip + 6, 0x4000);  // do not fragment
    ip[8] = 64;
    ip[9] = 6;
    wire32(ip + 12, source);
    wire32(ip + 16, destination);
    for (uint32_t i = 20; i < ip_header(); ++i) ip[i] = 1;  // no operation
    wire16(ip + 10, 0xffffu ^ internet_sum({ip, ip_header()}, 0));
    wire16(tcp, 40000);
    wire16(tcp + 2, 5201);
    wire32(tcp + 4, sequence);
    wire32(tcp + 8, 77);
    tcp[12] = static_cast<uint8_t>((20 + tcp_options) / 4 << 4);
    tcp[13] = flags;
    wire16(tcp + 14, 512);
    for (uint32_t i = 20; i < 20 + tcp_options; ++i) tcp[i] = 1;
    for (uint32_t i = 0; i < payload; ++i) out[kVnetHeader + header() + i] = payload_byte(i);
    // Partial: the pseudo header's sum alone.
    wire16(tcp + 16, internet_sum({ip + 12, 8}, 6 + length - ip_header()));
    return out;
  }
};

inline std::vector<uint8_t> joined(const PacketSlice& slice) {
  std::vector<uint8_t> out(slice.head().begin(), slice.head().end());
  out.insert(out.end(), slice.payload.begin(), slice.payload.end());
  return out;
}

}  // namespace tombolo::wanem
