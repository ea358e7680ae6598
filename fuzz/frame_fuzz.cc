// The wire format: arbitrary bytes give frames and messages within their limits, or an error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "perform/link/link.h"
#include "perform/link/relay.h"

using namespace tombolo;
using namespace tombolo::link;

namespace {

constexpr uint64_t kMessageMax = 1 << 20;
const Identity kSelf{.rank = 0, .ranks = 4, .epoch = 1};

// The first byte chooses the portions, so that boundaries fall everywhere.
void stream(std::span<const std::byte> bytes, size_t portion, uint32_t payload_max) {
  FrameDecoder decoder(payload_max);
  Assembler assembler({.sender = 1, .epoch = 1, .message_max = kMessageMax});
  bool failed_before = false, lost = false;
  while (!bytes.empty()) {
    const size_t n = portion < bytes.size() ? portion : bytes.size();
    const Status status = decoder.feed(bytes.first(n), [&](const Frame& frame) -> Status {
      CHECK(!failed_before, "a frame after an error");
      CHECK(frame.payload.size() <= payload_max, "a payload of {} bytes", frame.payload.size());
      if (const auto caller = check_hello(kSelf, frame)) {
        CHECK(caller->rank > 0 && caller->rank < kSelf.ranks, "rank {} was welcome", caller->rank);
        CHECK(caller->part.connection < caller->part.connections &&
                  caller->part.connections <= kConnectionsMax,
              "connection {} of {} was welcome", caller->part.connection, caller->part.connections);
      }
      const auto messages = assembler.add(frame);
      if (!messages) {
        lost = true;
        return fail(messages.error());
      }
      for (const Message& message : *messages)
        CHECK(message.payload.size() <= kMessageMax, "a message above the limit");
      return {};
    });
    if (lost) return;  // whoever is told so hangs up
    failed_before = !status;
    bytes = bytes.subspan(n);
  }
}

// Checksums stop nearly every mutation at the listener. So the same bytes also come as the fields of
// frames that are sound, over the three connections of a link. Payloads repeat the message's number
// and offset, so that a message which was put together wrongly is seen. A resumable link also loses
// connections and gets them back, sends, and may be told of bytes twice.
class Fields {
 public:
  explicit Fields(bool resumable) {
    for (uint32_t i = 0; i < 3; ++i)
      CHECK(link_.gathering().add({1, {.connection = i, .connections = 3}}), "connection {}", i);
    if (resumable) link_.make_resumable({});
  }

  // False when the link is lost.
  bool add(std::span<const std::byte> eight) {
    const auto field = [&](size_t at) { return static_cast<uint64_t>(eight[at]); };
    const auto connection = static_cast<uint32_t>(field(7) % 3);
    if (link_.resumable() && !live(connection, field(7))) return true;
    std::vector<std::byte> payload(field(5));
    FrameHeader header{.kind = static_cast<FrameKind>(2 + field(0) % 5),
                       .sender = 1,
                       .epoch = 1,
                       .iteration = field(0) % 5 == 3 ? field(0) / 5 : 0,
                       .tag = field(1) % 4,
                       .message = field(2) % 16,
                       .after = field(3) % 16,
                       .offset = field(4),
                       .total = field(6),
                       .length = static_cast<uint32_t>(payload.size())};
    for (size_t i = 0; i < payload.size(); ++i) payload[i] = byte_at(header.tag, field(4) + i);
    const Status status = decoder_.feed(encode_frame(header, payload), [&](const Frame& frame) {
      return link_.accept(connection, frame, {});
    });
    look();
    return status.has_value() && !link_.finished();
  }

 private:
  // One in four is cut, or comes back, or says something of its own; false: it is gone.
  bool live(uint32_t connection, uint64_t what) {
    const bool here = link_.ledger(connection) != nullptr;
    if (what >= 192 && here) link_.lose(connection, {});
    if (what >= 192 && !here) link_.resume(connection, {});
    if (!link_.ledger(connection) || link_.said_goodbye(connection)) return false;
    if (what >= 128 && what < 192) {
      link_.outbox().push({0, what % 4}, Payload(what), 0, {});
      static_cast<void>(link_.pull(connection, {}));
      said_ += what;
      CHECK(link_.kept_bytes() <= said_, "{} of {} bytes", link_.kept_bytes(), said_);
    }
    return true;
  }

  static std::byte byte_at(uint64_t tag, uint64_t offset) {
    return static_cast<std::byte>(17 * tag + offset);
  }

  void look() {
    for (uint64_t tag = 0; tag < 4; ++tag) {
      while (link_.inbox().due({0, tag}, {})) {
        const Received received = link_.inbox().take({0, tag}, {});
        CHECK(received.payload.size() <= 255, "a message of {} bytes", received.payload.size());
        for (size_t i = 0; i < received.payload.size(); ++i)
          CHECK(received.payload[i] == byte_at(tag, i), "byte {} of tag {} is wrong", i, tag);
      }
    }
  }

  uint64_t said_ = 0;  // bytes
  FrameDecoder decoder_{kUnauthenticatedPayloadMax};
  Link link_{{.self = kSelf, .peer = 1, .message_max = 200}};
};

// The shares of a relayed message, cut from arbitrary bytes at arbitrary places: a message that the
// law of cutting allows, or an error.
void shares(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto count = static_cast<uint32_t>(1 + static_cast<unsigned>(bytes[0]) % 5);
  Gather gather(count);
  bytes = bytes.subspan(1);
  for (uint32_t s = 0; s < count; ++s) {
    const size_t wanted = bytes.empty() ? 0 : static_cast<size_t>(bytes[0]);
    const auto part = bytes.first(wanted < bytes.size() ? wanted : bytes.size());
    bytes = bytes.subspan(part.size());
    if (!gather.add(s, {Payload(part.begin(), part.end()), {}, {}})) return;
  }
  const auto message = gather.take();
  if (!message) return;
  CHECK(message->sent_start.ns >= 0, "it left at {} ns", message->sent_start.ns);
  CHECK(message->payload.size() <= 255 * count, "{} bytes", message->payload.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::span bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  stream(bytes, size_t{data[0]} + 1, kUnauthenticatedPayloadMax);
  shares(bytes);
  for (const bool resumable : {false, true}) {
    Fields fields(resumable);
    for (size_t at = 0; at + 8 <= bytes.size() && fields.add(bytes.subspan(at, 8)); at += 8) {
    }
  }
  return 0;
}
