// Offsets of the fields of a frame: virtio's header, IPv4, TCP. For code that reads and changes
// frames in place (packet.cc, window_bound.cc).
#pragma once

#include <cstdint>

namespace tombolo::wanem {

// struct virtio_net_hdr, in the byte order of the host (linux/virtio_net.h is no C++).
inline constexpr uint32_t kFlagsAt = 0, kGsoTypeAt = 1, kHeaderLengthAt = 2, kGsoSizeAt = 4;
inline constexpr uint32_t kChecksumStartAt = 6, kChecksumOffsetAt = 8;
inline constexpr uint8_t kNeedsChecksum = 1;
inline constexpr uint8_t kGsoNone = 0, kGsoTcp4 = 1, kGsoEcn = 0x80;

// Within the IPv4 header and the TCP header.
inline constexpr uint32_t kIpLength = 2, kIpIdentification = 4, kIpFragment = 6, kIpProtocol = 9;
inline constexpr uint32_t kIpChecksum = 10, kIpSource = 12, kIpDestination = 16, kIpHeaderMin = 20;
inline constexpr uint32_t kTcpSequence = 4, kTcpOffset = 12, kTcpFlags = 13, kTcpWindow = 14;
inline constexpr uint32_t kTcpChecksum = 16, kTcpHeaderMin = 20;
inline constexpr uint8_t kTcp = 6;

// Flags of TCP.
inline constexpr uint8_t kFin = 0x01, kSyn = 0x02, kReset = 0x04, kPush = 0x08;
inline constexpr uint8_t kAcknowledges = 0x10, kCongestionWindowReduced = 0x80;

// In the byte order of the network.
inline uint32_t wire16(const uint8_t* at) { return uint32_t{at[0]} << 8 | at[1]; }
inline void put_wire16(uint8_t* at, uint32_t value) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
}

}  // namespace tombolo::wanem
