#include "perform/link/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace tombolo::link {
namespace {

using testing::HasSubstr;

std::vector<std::byte> bytes(std::string_view text) {
  const auto span = std::as_bytes(std::span(text));
  return {span.begin(), span.end()};
}

const FrameHeader kHeader{.kind = FrameKind::kData,
                          .sender = 2,
                          .epoch = 5,
                          .iteration = 0x0102030405060708,
                          .tag = 7,
                          .message = 9,
                          .after = 4,
                          .offset = 16,
                          .total = 64,
                          .length = 5,
                          .start = {1000},
                          .departed = {1500}};

struct Decoded {
  std::vector<FrameHeader> headers;
  std::string payloads;
  Status status;
};

// Feeds the bytes in portions of `portion`.
Decoded decode(FrameDecoder& decoder, std::span<const std::byte> stream, size_t portion) {
  Decoded out;
  while (!stream.empty() && out.status) {
    const size_t n = std::min(portion, stream.size());
    out.status = decoder.feed(stream.first(n), [&](const Frame& frame) -> Status {
      out.headers.push_back(frame.header);
      out.payloads.append(reinterpret_cast<const char*>(frame.payload.data()),
                          frame.payload.size());
      return {};
    });
    stream = stream.subspan(n);
  }
  return out;
}

std::string error_of(std::span<const std::byte> stream) {
  FrameDecoder decoder;
  const Decoded out = decode(decoder, stream, stream.size());
  return out.status ? "" : out.status.error().text();
}

TEST(Frame, FieldsLieWhereTheHeaderSaysLittleEndian) {
  const EncodedHeader head = encode_header(kHeader, bytes("hello"));
  EXPECT_EQ(std::memcmp(head.data(), "TMBO\x05\x00\x02\x00", 8), 0);      // magic, version 5, data
  EXPECT_EQ(head[8], std::byte{2});                                       // sender
  EXPECT_EQ(head[12], std::byte{5});                                      // epoch
  for (int i = 0; i < 8; ++i) EXPECT_EQ(head[16 + i], std::byte(8 - i));  // iteration
  EXPECT_EQ(head[24], std::byte{7});
  EXPECT_EQ(head[32], std::byte{9});  // message
  EXPECT_EQ(head[40], std::byte{4});  // after
  EXPECT_EQ(head[48], std::byte{16});
  EXPECT_EQ(head[56], std::byte{64});
  EXPECT_EQ(head[64], std::byte{5});
  EXPECT_EQ(head[72], std::byte{0xe8});  // 1000 = 0x03e8
  EXPECT_EQ(head[73], std::byte{0x03});
  EXPECT_EQ(head[80], std::byte{0xdc});  // 1500 = 0x05dc
}

TEST(Frame, ComesBackWholeInAnyPortions) {
  auto stream = encode_frame(kHeader, bytes("hello"));
  FrameHeader empty = kHeader;
  empty.length = 0;
  for (const std::byte b : encode_frame(empty, {})) stream.push_back(b);
  for (size_t portion = 1; portion <= stream.size(); ++portion) {
    FrameDecoder decoder;
    const Decoded out = decode(decoder, stream, portion);
    ASSERT_TRUE(out.status) << out.status.error().text();
    EXPECT_EQ(out.headers, (std::vector{kHeader, empty}));
    EXPECT_EQ(out.payloads, "hello");
  }
}

TEST(Frame, EveryChangedBitIsNoticed) {
  const auto good = encode_frame(kHeader, bytes("hello"));
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    FrameDecoder decoder;
    const Decoded out = decode(decoder, bad, bad.size());
    EXPECT_TRUE(out.headers.empty()) << "bit " << bit;
    // A longer length waits for more; the more that comes is not what was summed.
    if (out.status) {
      const std::vector<std::byte> more(kFramePayloadMax);
      EXPECT_FALSE(decode(decoder, more, more.size()).status) << "bit " << bit;
    }
  }
}

TEST(Frame, AVersionMismatchNamesBoth) {
  auto stream = encode_frame(kHeader, bytes("hello"));
  stream[4] = std::byte{9};
  EXPECT_THAT(error_of(std::span(stream).first(6)), HasSubstr("version 9, this program version 5"));
}

TEST(Frame, GarbageIsQuotedWithoutItsControlBytes) {
  EXPECT_THAT(error_of(bytes("GET /\x1b[2J HTTP/1.1\r\n")), HasSubstr("\"GET /?[2J HTTP/1\""));
  EXPECT_THAT(error_of(bytes("X")), HasSubstr("not a Tombolo connection"));
}

TEST(Frame, LengthsAreCheckedBeforeThePayloadComes) {
  const std::vector<std::byte> payload(kFramePayloadMax + 1);
  FrameHeader header{.total = payload.size(), .length = kFramePayloadMax + 1};
  const EncodedHeader head = encode_header(header, payload);
  EXPECT_THAT(error_of(head), HasSubstr("262145 bytes where at most 262144 are allowed"));

  FrameHeader beyond = kHeader;
  beyond.offset = 60;  // 60 + 5 > 64
  EXPECT_THAT(error_of(encode_header(beyond, bytes("hello"))),
              HasSubstr("5 bytes at offset 60 of a message of 64 bytes"));
  beyond.offset = ~uint64_t{0};  // must not wrap around
  EXPECT_THAT(error_of(encode_header(beyond, bytes("hello"))), HasSubstr("at offset 18446744"));
}

TEST(Frame, StampsThatWouldOverflowAreRefused) {
  FrameHeader header = kHeader;
  header.departed = {std::numeric_limits<int64_t>::max()};
  EXPECT_THAT(error_of(encode_header(header, bytes("hello"))), HasSubstr("stamps"));
  header.departed = {999};  // before its start
  EXPECT_THAT(error_of(encode_header(header, bytes("hello"))), HasSubstr("stamps"));
}

TEST(Frame, AnErrorIsForGood) {
  FrameDecoder decoder;
  EXPECT_FALSE(decode(decoder, bytes("nonsense"), 8).status);
  const auto good = encode_frame(kHeader, bytes("hello"));
  const Decoded out = decode(decoder, good, good.size());
  EXPECT_FALSE(out.status);
  EXPECT_TRUE(out.headers.empty());
}

TEST(Frame, MemoryIsTwoFramesWhateverComes) {
  FrameDecoder decoder(512);
  EXPECT_EQ(decoder.memory(), 2 * (96 + 512));
  auto stream = encode_frame(kHeader, bytes("hello"));
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(decode(decoder, stream, stream.size()).status);
  EXPECT_EQ(decoder.memory(), 2 * (96 + 512));
}

}  // namespace
}  // namespace tombolo::link
