// Frames: what goes over a connection between two ranks.
//
// A frame is a header of 96 bytes, little-endian, and up to 256 KiB of payload:
//
//    0  magic "TMBO"      16  iteration  u64      56  total      u64
//    4  version  u16      24  tag        u64      64  length     u32, of this payload
//    6  kind     u8       32  message    u64      68  reserved   u32, zero
//    7  flags    u8, zero 40  after      u64      72  start      i64 ns: the message's first byte
//    8  sender   u32      48  offset     u64      80  departed   i64 ns: this frame's last byte
//   12  epoch    u32                              88  checksum   u64
//
// The checksum is XXH3-64 of the payload, seeded with XXH3-64 of the first 88 bytes: it finds every
// accident, but is no signature. The first 8 bytes stay where they are in all versions to come, so
// that two versions can name each other. A length is not used before it was checked.
//
// Version 2 numbers messages, because those of a link come over several connections. Version 3 lets
// a link outlive its connections: hellos that resume a link, receipts that count segments,
// pings. Version 4 gives credit: a hello and receipts say how much may be sent (link.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tombolo::link {

constexpr uint16_t kProtocolVersion = 5;
constexpr size_t kHeaderBytes = 96;
constexpr uint32_t kFramePayloadMax = 256 * 1024;
constexpr uint64_t kUnlimited = UINT64_MAX;  // bytes

enum class FrameKind : uint8_t {
  kHello = 1,    // who I am; payload: the job's token and more (handshake.h)
  kData = 2,     // a segment of a message
  kGoodbye = 3,  // all is sent; what follows is the end of the connection
  kFailure = 4,  // I give up; payload: why, as text
  kReceipt = 5,  // all messages up to a number are here; how many segments this connection brought
  kPing = 6,     // I am here, and have nothing to say
};

struct FrameHeader {
  FrameKind kind = FrameKind::kData;
  uint32_t sender = 0;  // rank
  uint32_t epoch = 0;   // of the membership
  // In a receipt: how many segments (data frames) came over this connection since it shook hands;
  // in a goodbye: up to which message all are here.
  uint64_t iteration = 0;
  // Which tensor of the iteration; in a hello: the rank that is called; in a receipt: the credit; in
  // a failure: its ErrorCause.
  uint64_t tag = 0;
  // Messages of a link count from 1, in the order of send(). In a hello: which connection of the
  // link this is, from 0; in a goodbye: how many messages were sent; in a receipt: up to which.
  uint64_t message = 0;
  // The message with the same tag that goes before, 0: none that could still be under way. In a
  // hello: how many connections the link has.
  uint64_t after = 0;
  uint64_t offset = 0;  // of this payload in its message, bytes
  uint64_t total = 0;   // of the message, bytes
  uint32_t length = 0;  // of this payload, bytes
  SimTime start;        // on the sender's clock, which ranks of a host share
  SimTime departed;

  bool operator==(const FrameHeader&) const = default;
};

// A frame as it lies in the decoder's buffer.
struct Frame {
  FrameHeader header;
  std::span<const std::byte> payload;
};

using EncodedHeader = std::array<std::byte, kHeaderBytes>;

// The header's bytes, with the checksum over it and the payload. header.length is the payload's.
EncodedHeader encode_header(const FrameHeader& header, std::span<const std::byte> payload);

// Header and payload in one piece, for the small frames: hello, goodbye, failure.
std::vector<std::byte> encode_frame(const FrameHeader& header, std::span<const std::byte> payload);

// Bytes in, frames out, in any portions. After an error it stays in error: a stream that was wrong
// once has no boundaries any more.
//
// Its memory is one buffer: large enough for two frames of payload_max, so that a read from a
// socket goes into space() without a detour. A payload stays there until the next call.
class FrameDecoder {
 public:
  explicit FrameDecoder(uint32_t payload_max = kFramePayloadMax);

  // Before its handshake a connection gets a small buffer, afterwards the full one.
  void raise_payload_max(uint32_t payload_max);

  std::span<std::byte> space();  // where the next bytes go; never empty after next() was drained
  void commit(size_t bytes);     // that many were written to space()
  Result<std::optional<Frame>> next();  // nothing: needs more bytes

  // space, commit and next in a loop, for bytes that already lie somewhere.
  Status feed(std::span<const std::byte> bytes,
              const std::function<Status(const Frame&)>& on_frame);

  size_t memory() const { return buffer_.size(); }

 private:
  Result<std::optional<Frame>> decode();

  uint32_t payload_max_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0;  // buffer_[begin_, end_) is still to be decoded
  size_t end_ = 0;
  std::optional<Error> error_;
};

// Text that came over the wire, fit for a terminal: no control bytes, at most 400 of the others.
std::string printable(std::span<const std::byte> bytes);

}  // namespace tombolo::link
