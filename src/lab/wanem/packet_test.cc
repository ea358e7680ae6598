#include "lab/wanem/packet.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "lab/wanem/frame_layout.h"
#include "support/test_frame.h"

namespace tombolo::wanem {
namespace {

uint32_t wire16(const uint8_t* at) { return uint32_t{at[0]} << 8 | at[1]; }
uint32_t wire32(const uint8_t* at) { return wire16(at) << 16 | wire16(at + 2); }

// The checksum as a receiver checks it, written the slow way: over a pseudo header laid out in full
// (RFC 9293, section 3.1) and all of TCP, whose checksum field the sender's card has filled in.
uint32_t sum_of_words(const std::vector<uint8_t>& bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) sum += uint64_t{bytes[i]} << (i % 2 ? 0 : 8);
  while (sum > 0xffff) sum = sum % 0x10000 + sum / 0x10000;
  return static_cast<uint32_t>(sum);
}
std::vector<uint8_t> pseudo_header_and_tcp(const std::vector<uint8_t>& frame) {
  const uint8_t* ip = &frame[kVnetHeader];
  const uint32_t ip_header = (ip[0] & 15u) * 4;
  const auto tcp_length = static_cast<uint32_t>(frame.size()) - kVnetHeader - ip_header;
  std::vector<uint8_t> out(ip + 12, ip + 20);
  out.insert(out.end(),
             {0, 6, static_cast<uint8_t>(tcp_length >> 8), static_cast<uint8_t>(tcp_length)});
  out.insert(out.end(), ip + ip_header, ip + ip_header + tcp_length);
  return out;
}
// What a network card does with NEEDS_CSUM: sum from csum_start, partial sum included, complement.
std::vector<uint8_t> with_full_checksum(std::vector<uint8_t> frame) {
  uint8_t* ip = &frame[kVnetHeader];
  const uint32_t ip_header = (ip[0] & 15u) * 4;
  const std::vector<uint8_t> tcp(ip + ip_header, ip + frame.size() - kVnetHeader);
  const uint32_t sum = 0xffff ^ sum_of_words(tcp);
  ip[ip_header + 16] = static_cast<uint8_t>(sum >> 8);
  ip[ip_header + 17] = static_cast<uint8_t>(sum);
  return frame;
}

TEST(Packet, CountsTheSegmentsOfASuperFrame) {
  // 10,000 bytes in segments of 1448: six full ones and 10,000 - 6 x 1448 = 1312.
  const Packet packet = parse_packet(TestFrame{.payload = 10'000, .gso_size = 1448}.bytes());
  ASSERT_EQ(packet.kind, PacketKind::kIpv4);
  EXPECT_EQ(packet.source, 0x0a4d0101u);
  EXPECT_EQ(packet.destination, 0x0a4d0201u);
  EXPECT_EQ(packet.segments, 7u);
  EXPECT_EQ(packet.header_bytes, 52u);
  EXPECT_EQ(packet.segment_bytes(), 1500u);
  EXPECT_EQ(packet.last_segment_bytes(), 1312u + 52u);
}

TEST(Packet, AnOrdinaryPacketIsOneSegment) {
  const Packet packet = parse_packet(TestFrame{.payload = 100}.bytes());
  ASSERT_EQ(packet.kind, PacketKind::kIpv4);
  EXPECT_EQ(packet.segments, 1u);
  EXPECT_EQ(packet.segment_bytes(), 152u);
  EXPECT_EQ(packet.last_segment_bytes(), 152u);
}

TEST(Packet, ASegmentOfItsOwnHasTheHeadersOfItsPlace) {
  const TestFrame whole{.payload = 4000,
                        .gso_size = 1000,
                        .sequence = 0xfffffff0,
                        .identification = 0xffff,
                        .flags = kAcknowledges | kPush | kFin | kCongestionWindowReduced,
                        .gso_type = 0x81};
  const auto frame = whole.bytes();
  const Packet packet = parse_packet(frame);
  for (uint32_t i = 0; i < 4; ++i) {
    const auto segment = joined(cut(frame, packet, i, i + 1));
    const uint8_t* ip = &segment[kVnetHeader];
    const uint8_t* tcp = ip + 20;
    EXPECT_EQ(segment[1], 0) << "a single segment is no super-frame";
    EXPECT_EQ(wire16(ip + 2), 1052u);
    EXPECT_EQ(wire16(ip + 4), (0xffff + i) & 0xffff) << "identification counts on";
    EXPECT_EQ(sum_of_words({ip, ip + 20}), 0xffffu) << "IP checksum";
    EXPECT_EQ(wire32(tcp + 4), 0xfffffff0 + 1000 * i) << "the sequence number wraps";
    EXPECT_EQ(tcp[13], i == 0   ? kAcknowledges | kCongestionWindowReduced
                       : i == 3 ? kAcknowledges | kPush | kFin
                                : kAcknowledges);
  }
}

TEST(Packet, SlicesReassembleToTheOriginal) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Random random(seed);
    TestFrame whole{.ip_options = 4 * static_cast<uint32_t>(random.below(11)),
                    .tcp_options = 4 * static_cast<uint32_t>(random.below(11)),
                    .payload = 2 + static_cast<uint32_t>(random.below(20'000)),
                    .sequence = static_cast<uint32_t>(random.next()),
                    .identification = static_cast<uint32_t>(random.below(65536)),
                    .flags = static_cast<uint8_t>(random.below(256))};
    whole.gso_size = 1 + static_cast<uint32_t>(random.below(std::min(whole.payload - 1, 9000u)));
    const auto frame = whole.bytes();
    const Packet packet = parse_packet(frame);
    ASSERT_EQ(packet.kind, PacketKind::kIpv4) << "seed " << seed;
    ASSERT_GT(packet.segments, 1u);

    std::vector<uint8_t> payload;
    for (uint32_t first = 0; first < packet.segments;) {
      const auto last = first + 1 + static_cast<uint32_t>(random.below(packet.segments - first));
      const auto slice = joined(cut(frame, packet, first, last));
      const Packet again = parse_packet(slice);
      ASSERT_EQ(again.kind, PacketKind::kIpv4) << "seed " << seed;
      EXPECT_EQ(again.segments, last - first);
      EXPECT_EQ(again.source, packet.source);
      const uint8_t* ip = &slice[kVnetHeader];
      EXPECT_EQ(sum_of_words({ip, ip + whole.ip_header()}), 0xffffu);
      EXPECT_EQ(wire32(ip + whole.ip_header() + 4), whole.sequence + payload.size());
      EXPECT_EQ(sum_of_words(pseudo_header_and_tcp(with_full_checksum(slice))), 0xffffu)
          << "what the receiver checks, seed " << seed;
      payload.insert(payload.end(), slice.begin() + kVnetHeader + whole.header(), slice.end());
      first = last;
    }
    ASSERT_EQ(payload.size(), whole.payload);
    for (uint32_t i = 0; i < whole.payload; ++i) {
      ASSERT_EQ(payload[i], TestFrame::payload_byte(i)) << "seed " << seed;
    }
  }
}

TEST(Packet, ASliceOfASliceIsTheSliceItself) {
  const auto frame =
      TestFrame{.payload = 9000, .gso_size = 1000, .flags = kAcknowledges | kPush}.bytes();
  const auto middle = joined(cut(frame, parse_packet(frame), 2, 7));
  EXPECT_EQ(joined(cut(middle, parse_packet(middle), 1, 3)),
            joined(cut(frame, parse_packet(frame), 3, 5)));
}

TEST(Packet, WhatIsNotIpv4IsForeign) {
  auto six = TestFrame{.payload = 100}.bytes();
  six[kVnetHeader] = 0x60;
  EXPECT_EQ(parse_packet(six).kind, PacketKind::kForeign);
  const auto udp_gso = TestFrame{.payload = 3000, .gso_size = 1000, .gso_type = 5}.bytes();
  EXPECT_EQ(parse_packet(udp_gso).kind, PacketKind::kForeign);
}

TEST(Packet, NoLengthIsBelieved) {
  const auto sound = TestFrame{.payload = 3000, .gso_size = 1000}.bytes();
  ASSERT_EQ(parse_packet(sound).kind, PacketKind::kIpv4);
  const auto broken = [&](size_t at, uint8_t value) {
    auto frame = sound;
    frame[at] = value;
    return parse_packet(frame).kind == PacketKind::kBroken;
  };
  const size_t ip = kVnetHeader, tcp = ip + 20;
  EXPECT_TRUE(broken(ip, 0x44)) << "an IP header of 16 bytes";
  EXPECT_TRUE(broken(ip + 2, 0xff)) << "longer than the frame";
  EXPECT_TRUE(broken(ip + 3, 0)) << "shorter than the frame";
  EXPECT_TRUE(broken(ip + 6, 0x20)) << "a fragment";
  EXPECT_TRUE(broken(ip + 9, 17)) << "UDP that says it is TCP";
  EXPECT_TRUE(broken(tcp + 12, 0x40)) << "a TCP header of 16 bytes";
  EXPECT_TRUE(broken(0, 0)) << "no partial checksum";
  EXPECT_TRUE(broken(6, 24)) << "a checksum elsewhere";
  EXPECT_TRUE(broken(8, 6)) << "a checksum elsewhere";
  auto no_size = sound;
  no_size[4] = no_size[5] = 0;
  EXPECT_EQ(parse_packet(no_size).kind, PacketKind::kBroken);
  for (size_t length = 0; length < sound.size(); length += length < 80 ? 1 : 97) {
    EXPECT_EQ(parse_packet(std::span(sound).first(length)).kind, PacketKind::kBroken) << length;
  }
}

}  // namespace
}  // namespace tombolo::wanem
