// IP packets as TUN devices hand them over, and how to cut large ones into segments.
//
// A frame is a virtio-net header of 10 bytes and an IP packet. Where the header says so (GSO), the
// packet is a TCP/IPv4 super-frame: up to 64 KiB of payload behind one set of headers, standing for
// many segments of gso_size bytes each. Any range of segments can become a frame of its own, with
// the headers that the sender's network card would have made: lengths, IP identification, sequence
// number, FIN and PSH on the last segment only, CWR on the first only, IP checksum. The TCP
// checksum stays what the kernel calls partial: the sum of the pseudo header, NEEDS_CSUM set.
//
// IPv4 only. What is not a TCP super-frame is one segment. A frame is the kernel's and with it the
// sender's input: every length is checked here, once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tombolo::wanem {

inline constexpr uint32_t kVnetHeader = 10;
inline constexpr uint32_t kFrameMax = kVnetHeader + 65535;

enum class PacketKind {
  kIpv4,
  kForeign,  // no IPv4, or a super-frame of something else than TCP/IPv4
  kBroken,   // contradicts its own length, or cannot be cut
};

struct Packet {
  PacketKind kind = PacketKind::kBroken;
  uint32_t source = 0;       // addresses in host byte order
  uint32_t destination = 0;  // valid only in kind kIpv4, as is all below
  uint32_t segments = 1;
  uint32_t header_bytes = 0;   // IP and TCP headers, which each segment repeats
  uint32_t payload_bytes = 0;  // of all segments together
  uint32_t segment_payload = 0;

  // Of the IP packets that these segments are, headers included.
  uint32_t segment_bytes() const { return header_bytes + segment_payload; }
  uint32_t last_segment_bytes() const {
    return header_bytes + payload_bytes - (segments - 1) * segment_payload;
  }
};

Packet parse_packet(std::span<const uint8_t> frame);

// A frame of its own: new headers, and a view of the payload in the old frame. Write both in order.
struct PacketSlice {
  static constexpr uint32_t kHeadMax = kVnetHeader + 60 + 60;
  std::array<uint8_t, kHeadMax> head_bytes;
  uint32_t head_size = 0;
  std::span<const uint8_t> payload;  // part of the frame that was cut

  std::span<const uint8_t> head() const { return {head_bytes.data(), head_size}; }
};

// Segments [first, last) of a super-frame. CHECKs that there are such segments, and that `packet`
// has more than one.
PacketSlice cut(std::span<const uint8_t> frame, const Packet& packet, uint32_t first,
                uint32_t last);

// The Internet checksum (RFC 1071) before it is complemented, folded to 16 bits; start with 0.
uint16_t internet_sum(std::span<const uint8_t> bytes, uint32_t start);

}  // namespace tombolo::wanem
