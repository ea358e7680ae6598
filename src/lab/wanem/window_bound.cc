#include "lab/wanem/window_bound.h"

#include <algorithm>

#include "base/check.h"
#include "lab/wanem/frame_layout.h"

namespace tombolo::wanem {
namespace {

constexpr uint8_t kOptionEnd = 0, kOptionNothing = 1, kOptionWindowScale = 3;
constexpr uint8_t kScaleMax = 14;  // RFC 7323

// More than any host has ports for; further connections are not bounded.
constexpr size_t kConnectionsMax = size_t{1} << 20;

// The TCP header and what follows; empty where this is no beginning of a TCP segment.
std::span<uint8_t> tcp_of(std::span<uint8_t> frame, const Packet& packet) {
  if (packet.kind != PacketKind::kIpv4) return {};
  const std::span<uint8_t> ip = frame.subspan(kVnetHeader);
  const bool first_fragment = (wire16(&ip[kIpFragment]) & 0x1fff) == 0;
  const uint32_t ip_header = (ip[0] & 15u) * 4;
  if (ip[kIpProtocol] != kTcp || !first_fragment || ip.size() < ip_header + kTcpHeaderMin)
    return {};
  return ip.subspan(ip_header);
}

// The window scale among the options of a SYN.
std::optional<uint8_t> scale_option(std::span<const uint8_t> tcp) {
  const size_t end = std::min<size_t>(tcp.size(), (tcp[kTcpOffset] >> 4) * 4u);
  for (size_t at = kTcpHeaderMin; at < end && tcp[at] != kOptionEnd;) {
    if (tcp[at] == kOptionNothing) {
      ++at;
      continue;
    }
    if (at + 1 >= end || tcp[at + 1] < 2 || at + tcp[at + 1] > end) break;
    if (tcp[at] == kOptionWindowScale && tcp[at + 1] == 3) return std::min(tcp[at + 2], kScaleMax);
    at += tcp[at + 1];
  }
  return std::nullopt;
}

}  // namespace

// Windows are scaled if both SYN packets say so, which shows in the second, the one that
// acknowledges. What one side grants matters until the other has sent its FIN.
void WindowBound::learn(std::span<const uint8_t> tcp, const Key& key) {
  const uint8_t flags = tcp[kTcpFlags];
  if (flags & kSyn) {
    const std::optional<uint8_t> scale = scale_option(tcp);
    if (scales_.size() < kConnectionsMax) scales_[key] = scale.value_or(0);
    if (flags & kAcknowledges && !scale) {
      if (const auto first = scales_.find(key.reverse()); first != scales_.end()) first->second = 0;
    }
  }
  if (flags & (kFin | kReset)) scales_.erase(key.reverse());
  if (flags & kReset) scales_.erase(key);
}

void WindowBound::pass(std::span<uint8_t> frame, const Packet& packet, std::optional<Bytes> bound) {
  CHECK(packet.kind != PacketKind::kIpv4 ||
            frame.size() == kVnetHeader + packet.header_bytes + packet.payload_bytes,
        "a frame of {} bytes is not that of its packet", frame.size());
  CHECK(!bound || bound->value >= 1, "a window of {} bytes", bound->value);
  const std::span<uint8_t> tcp = tcp_of(frame, packet);
  if (tcp.empty()) return;
  const Key key{uint64_t{packet.source} << 32 | packet.destination,
                wire16(&tcp[0]) << 16 | wire16(&tcp[2])};
  const uint8_t flags = tcp[kTcpFlags];
  if (flags & (kSyn | kFin | kReset)) learn(tcp, key);
  if (!bound) return;

  uint8_t scale = 0;  // of a SYN's own window, always
  if (!(flags & kSyn)) {
    const auto found = scales_.find(key);
    if (found == scales_.end()) return;
    scale = found->second;
  }
  const uint32_t granted = wire16(&tcp[kTcpWindow]);
  const double limit = std::min(65535.0, bound->value / static_cast<double>(1u << scale));
  // Never to zero, which would stop the connection.
  const uint32_t lowered = std::max(1u, static_cast<uint32_t>(limit));
  if (granted <= lowered) return;
  put_wire16(&tcp[kTcpWindow], lowered);
  // A partial checksum does not cover the window; a whole one changes with it (RFC 1624).
  if (frame[kFlagsAt] & kNeedsChecksum) return;
  uint32_t sum = (0xffffu ^ wire16(&tcp[kTcpChecksum])) + (0xffffu ^ granted) + lowered;
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  put_wire16(&tcp[kTcpChecksum], 0xffffu ^ sum);
}

}  // namespace tombolo::wanem
