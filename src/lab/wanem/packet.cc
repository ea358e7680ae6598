#include "lab/wanem/packet.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "lab/wanem/frame_layout.h"

namespace tombolo::wanem {
namespace {

uint16_t host16(const uint8_t* at) {
  uint16_t value;
  std::memcpy(&value, at, 2);
  return value;
}
void put_host16(uint8_t* at, uint32_t value) {
  const auto narrow = static_cast<uint16_t>(value);
  std::memcpy(at, &narrow, 2);
}
uint32_t wire32(const uint8_t* at) { return wire16(at) << 16 | wire16(at + 2); }
void put_wire32(uint8_t* at, uint32_t value) {
  put_wire16(at, value >> 16);
  put_wire16(at + 2, value);
}

}  // namespace

uint16_t internet_sum(std::span<const uint8_t> bytes, uint32_t start) {
  uint64_t sum = start;
  size_t i = 0;
  for (; i + 1 < bytes.size(); i += 2) sum += wire16(&bytes[i]);
  if (i < bytes.size()) sum += uint32_t{bytes[i]} << 8;
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

Packet parse_packet(std::span<const uint8_t> frame) {
  Packet packet;
  if (frame.size() < kVnetHeader + 1 || frame.size() > kFrameMax) return packet;
  const uint8_t* ip = frame.data() + kVnetHeader;
  const auto length = static_cast<uint32_t>(frame.size()) - kVnetHeader;
  if (ip[0] >> 4 != 4) {
    packet.kind = PacketKind::kForeign;
    return packet;
  }
  if (length < kIpHeaderMin || wire16(ip + kIpLength) != length) return packet;
  const uint32_t ip_header = (ip[0] & 15u) * 4;
  if (ip_header < kIpHeaderMin || ip_header > length) return packet;
  packet.source = wire32(ip + kIpSource);
  packet.destination = wire32(ip + kIpDestination);

  const uint8_t gso_type = frame[kGsoTypeAt];
  if (gso_type == kGsoNone) {
    packet.kind = PacketKind::kIpv4;
    packet.header_bytes = ip_header;
    packet.payload_bytes = packet.segment_payload = length - ip_header;
    return packet;
  }
  if ((gso_type & ~kGsoEcn) != kGsoTcp4) {
    packet.kind = PacketKind::kForeign;
    return packet;
  }
  // A super-frame: whole, TCP, with a partial checksum where TCP has its own.
  if (ip[kIpProtocol] != kTcp || (wire16(ip + kIpFragment) & 0x3fff) != 0) return packet;
  if (length < ip_header + kTcpHeaderMin) return packet;
  const uint32_t tcp_header = (ip[ip_header + kTcpOffset] >> 4) * 4u;
  const uint32_t header = ip_header + tcp_header;
  if (tcp_header < kTcpHeaderMin || header >= length) return packet;
  const uint32_t size = host16(&frame[kGsoSizeAt]);
  if (size == 0 || !(frame[kFlagsAt] & kNeedsChecksum) ||
      host16(&frame[kChecksumStartAt]) != ip_header ||
      host16(&frame[kChecksumOffsetAt]) != kTcpChecksum) {
    return packet;
  }
  packet.kind = PacketKind::kIpv4;
  packet.header_bytes = header;
  packet.payload_bytes = length - header;
  packet.segment_payload = std::min(size, packet.payload_bytes);
  packet.segments = (packet.payload_bytes + size - 1) / size;
  return packet;
}

PacketSlice cut(std::span<const uint8_t> frame, const Packet& packet, uint32_t first,
                uint32_t last) {
  CHECK(packet.kind == PacketKind::kIpv4 && packet.segments > 1 && first < last &&
            last <= packet.segments &&
            frame.size() == kVnetHeader + packet.header_bytes + packet.payload_bytes,
        "no segments [{}, {}) in a frame of {} bytes with {}", first, last, frame.size(),
        packet.segments);
  const uint32_t from = first * packet.segment_payload;
  const uint32_t to = std::min(last * packet.segment_payload, packet.payload_bytes);
  const uint32_t length = packet.header_bytes + to - from;

  PacketSlice slice;
  slice.head_size = kVnetHeader + packet.header_bytes;
  slice.payload = frame.subspan(slice.head_size + from, to - from);
  std::memcpy(slice.head_bytes.data(), frame.data(), slice.head_size);

  uint8_t* vnet = slice.head_bytes.data();
  put_host16(vnet + kHeaderLengthAt, packet.header_bytes);
  if (first > 0) vnet[kGsoTypeAt] &= static_cast<uint8_t>(~kGsoEcn);
  if (last - first == 1) {
    vnet[kGsoTypeAt] = kGsoNone;
    put_host16(vnet + kGsoSizeAt, 0);
  }

  uint8_t* ip = vnet + kVnetHeader;
  const uint32_t ip_header = (ip[0] & 15u) * 4;
  put_wire16(ip + kIpLength, length);
  put_wire16(ip + kIpIdentification, wire16(ip + kIpIdentification) + first);
  put_wire16(ip + kIpChecksum, 0);
  put_wire16(ip + kIpChecksum, 0xffffu ^ internet_sum({ip, ip_header}, 0));

  uint8_t* tcp = ip + ip_header;
  put_wire32(tcp + kTcpSequence, wire32(tcp + kTcpSequence) + from);
  if (first > 0) tcp[kTcpFlags] &= static_cast<uint8_t>(~kCongestionWindowReduced);
  if (last < packet.segments) tcp[kTcpFlags] &= static_cast<uint8_t>(~(kFin | kPush));
  put_wire16(tcp + kTcpChecksum, internet_sum({ip + kIpSource, 8}, kTcp + length - ip_header));
  return slice;
}

}  // namespace tombolo::wanem
