// Frames from TUN devices: arbitrary bytes are broken, foreign, or cut into frames that are sound.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "lab/wanem/packet.h"
#include "lab/wanem/window_bound.h"

using namespace tombolo;
using namespace tombolo::wanem;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of exactly this size, so that a sanitizer sees every byte read too far.
  const std::vector<uint8_t> frame(data, data + size);
  const Packet packet = parse_packet(frame);
  if (packet.kind != PacketKind::kIpv4) return 0;
  CHECK(packet.segments >= 1 && packet.last_segment_bytes() <= packet.segment_bytes(),
        "{} segments", packet.segments);
  // Lowering a window changes nothing that the packet is parsed for.
  std::vector<uint8_t> bounded = frame;
  WindowBound window_bound;
  for (int i = 0; i < 2; ++i) window_bound.pass(bounded, packet, Bytes{1000});
  CHECK(parse_packet(bounded).segments == packet.segments, "other segments");
  if (packet.segments == 1) return 0;
  uint32_t carried = 0;
  for (uint32_t first = 0, step = 1; first < packet.segments; step = step * 2 + 1) {
    const uint32_t last = step < packet.segments - first ? first + step : packet.segments;
    const PacketSlice slice = cut(frame, packet, first, last);
    std::vector<uint8_t> bytes(slice.head().begin(), slice.head().end());
    bytes.insert(bytes.end(), slice.payload.begin(), slice.payload.end());
    const Packet again = parse_packet(bytes);
    CHECK(again.kind == PacketKind::kIpv4 && again.segments == last - first,
          "segments [{}, {}) of {} became {}", first, last, packet.segments, again.segments);
    CHECK(again.destination == packet.destination, "another destination");
    carried += static_cast<uint32_t>(slice.payload.size());
    first = last;
  }
  CHECK(carried == packet.payload_bytes, "{} bytes of {}", carried, packet.payload_bytes);
  return 0;
}
