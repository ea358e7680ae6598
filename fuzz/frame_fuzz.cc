// The wire format: arbitrary bytes give frames and messages within their limits, or an error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "transport/handshake.h"
#include "transport/message.h"

using namespace tombolo;
using namespace tombolo::transport;

namespace {

// The first byte chooses the portions, so that boundaries fall everywhere.
void stream(std::span<const std::byte> bytes, size_t portion, uint32_t payload_max) {
  constexpr uint64_t kMessageMax = 1 << 20;
  FrameDecoder decoder(payload_max);
  Assembler assembler({.sender = 1, .epoch = 1, .message_max = kMessageMax});
  const Identity self{.rank = 0, .ranks = 4, .epoch = 1};
  bool failed_before = false;
  while (!bytes.empty()) {
    const size_t n = portion < bytes.size() ? portion : bytes.size();
    const Status status = decoder.feed(bytes.first(n), [&](const Frame& frame) -> Status {
      CHECK(!failed_before, "a frame after an error");
      CHECK(frame.payload.size() <= payload_max, "a payload of {} bytes", frame.payload.size());
      if (const auto rank = check_hello(self, frame))
        CHECK(*rank > 0 && *rank < self.ranks, "rank {} was welcome", *rank);
      const auto message = TRY(assembler.add(frame));
      CHECK(!message || message->payload.size() <= kMessageMax, "a message above the limit");
      return {};
    });
    failed_before = !status;
    bytes = bytes.subspan(n);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::span bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  stream(bytes, size_t{data[0]} + 1, kStrangerPayloadMax);

  // Checksums stop nearly every mutation at the door. So the same bytes also come as the payload
  // and the fields of frames that are sound.
  FrameHeader header{.sender = 1, .epoch = 1};
  Assembler assembler({.sender = 1, .epoch = 1, .message_max = 1 << 20});
  FrameDecoder decoder(kStrangerPayloadMax);
  for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    header.kind = static_cast<FrameKind>(1 + static_cast<unsigned>(bytes[at]) % 4);
    header.offset = static_cast<uint64_t>(bytes[at + 1]);
    header.total = static_cast<uint64_t>(bytes[at + 2]);
    header.length = static_cast<uint32_t>(bytes[at + 3]);
    const std::vector<std::byte> payload(header.length);
    const Status status =
        decoder.feed(encode_frame(header, payload), [&](const Frame& frame) -> Status {
          (void)assembler.add(frame);
          return {};
        });
    if (!status) break;
  }
  return 0;
}
