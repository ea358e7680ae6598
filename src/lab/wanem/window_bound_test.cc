#include "lab/wanem/window_bound.h"

#include <gtest/gtest.h>

#include "lab/wanem/frame_layout.h"
#include "support/test_frame.h"

namespace tombolo::wanem {
namespace {

constexpr size_t kTcpAt = kVnetHeader + 20;

// A frame between 10.77.1.1:40000 and 10.77.2.1:5201, or back.
struct Segment {
  uint8_t flags = kAcknowledges;
  uint32_t window = 60000;
  int scale = -1;  // of a SYN; -1: no such option
  bool back = false;

  std::vector<uint8_t> bytes() const {
    TestFrame frame{.flags = flags};
    if (back) std::swap(frame.source, frame.destination);
    std::vector<uint8_t> out = frame.bytes();
    if (back) {
      std::swap(out[kTcpAt], out[kTcpAt + 2]);
      std::swap(out[kTcpAt + 1], out[kTcpAt + 3]);
    }
    out[kTcpAt + 14] = static_cast<uint8_t>(window >> 8);
    out[kTcpAt + 15] = static_cast<uint8_t>(window);
    if (scale >= 0) {  // after one option that is to be skipped
      const uint8_t options[] = {2, 4, 5, 180, 1, 3, 3, static_cast<uint8_t>(scale)};
      std::copy(std::begin(options), std::end(options), &out[kTcpAt + 20]);
    }
    return out;
  }
};

uint32_t window_after(WindowBound& bound, const Segment& segment, std::optional<Bytes> limit) {
  std::vector<uint8_t> frame = segment.bytes();
  bound.pass(frame, parse_packet(frame), limit);
  return uint32_t{frame[kTcpAt + 14]} << 8 | frame[kTcpAt + 15];
}

// Both SYN packets of a connection, the first with scale 7, the second with 10.
void connect(WindowBound& bound) {
  window_after(bound, {.flags = kSyn, .scale = 7}, 3_MB);
  window_after(bound, {.flags = kSyn | kAcknowledges, .scale = 10, .back = true}, 3_MB);
}

TEST(WindowBound, LowersAWindowInTheUnitsOfItsHost) {
  WindowBound bound;
  connect(bound);
  // 3 000 000 / 2^7 = 23 437.5; 3 000 000 / 2^10 = 2929.7
  EXPECT_EQ(window_after(bound, {}, 3_MB), 23437u);
  EXPECT_EQ(window_after(bound, {.back = true}, 3_MB), 2929u);
}

TEST(WindowBound, LeavesASmallerWindowAlone) {
  WindowBound bound;
  connect(bound);
  EXPECT_EQ(window_after(bound, {.window = 23437}, 3_MB), 23437u);
  EXPECT_EQ(window_after(bound, {.window = 0}, 3_MB), 0u);
}

TEST(WindowBound, LeavesWindowsAloneWithoutABound) {
  WindowBound bound;
  connect(bound);
  EXPECT_EQ(window_after(bound, {}, std::nullopt), 60000u);
  EXPECT_EQ(window_after(bound, {}, 3_MB), 23437u);  // but has learnt for when there is one
}

TEST(WindowBound, DoesNotScaleTheWindowOfASyn) {
  WindowBound bound;
  EXPECT_EQ(window_after(bound, {.flags = kSyn, .scale = 7}, 3_MB), 60000u);
  EXPECT_EQ(window_after(bound, {.flags = kSyn, .scale = 7}, 20_KB), 20000u);
}

TEST(WindowBound, ScalesNothingWhereOneSideCannot) {
  WindowBound bound;
  window_after(bound, {.flags = kSyn, .scale = 7}, 20_KB);
  window_after(bound, {.flags = kSyn | kAcknowledges, .back = true}, 20_KB);
  EXPECT_EQ(window_after(bound, {}, 20_KB), 20000u);
}

TEST(WindowBound, ForgetsAConnectionThatHasEnded) {
  WindowBound bound;
  connect(bound);
  EXPECT_EQ(bound.connections(), 2u);
  // The client ends; what the server grants it matters no more, but its own grants still do.
  window_after(bound, {.flags = kFin | kAcknowledges}, 3_MB);
  EXPECT_EQ(window_after(bound, {}, 3_MB), 23437u);
  EXPECT_EQ(bound.connections(), 1u);
  window_after(bound, {.flags = kFin | kAcknowledges, .back = true}, 3_MB);
  EXPECT_EQ(bound.connections(), 0u);
  connect(bound);
  window_after(bound, {.flags = kReset}, 3_MB);
  EXPECT_EQ(bound.connections(), 0u);
}

TEST(WindowBound, KeepsAWholeChecksumRight) {
  // The checksum over pseudo header and segment, made complete as a kernel without offloads does.
  std::vector<uint8_t> frame = Segment{}.bytes();
  frame[0] = 0;
  const std::span<uint8_t> tcp(&frame[kTcpAt], frame.size() - kTcpAt);
  const auto sum = [&] {
    return internet_sum(
        tcp, internet_sum({&frame[kVnetHeader + 12], 8}, 6 + static_cast<uint32_t>(tcp.size())));
  };
  tcp[16] = tcp[17] = 0;
  const uint32_t checksum = 0xffffu ^ sum();
  tcp[16] = static_cast<uint8_t>(checksum >> 8);
  tcp[17] = static_cast<uint8_t>(checksum);
  ASSERT_EQ(sum(), 0xffff);  // right

  WindowBound bound;
  connect(bound);
  bound.pass(frame, parse_packet(frame), 3_MB);
  EXPECT_EQ(uint32_t{tcp[14]} << 8 | tcp[15], 23437u);
  EXPECT_EQ(sum(), 0xffff);  // still right
}

TEST(WindowBound, SurvivesOptionsThatContradictThemselves) {
  for (const uint8_t length : {uint8_t{0}, uint8_t{1}, uint8_t{200}}) {
    std::vector<uint8_t> frame = Segment{.flags = kSyn, .scale = 7}.bytes();
    frame[kTcpAt + 21] = length;
    WindowBound bound;
    bound.pass(frame, parse_packet(frame), 3_MB);
    EXPECT_EQ(window_after(bound, {}, 20_KB), 20000u);  // no scale was found
  }
}

TEST(WindowBoundDeathTest, ThePacketIsTheFramesAndAWindowHoldsAByte) {
  WindowBound bound;
  std::vector<uint8_t> frame = Segment{}.bytes();
  const Packet packet = parse_packet(frame);
  EXPECT_DEATH(bound.pass(frame, packet, Bytes{0.5}), "a window of 0.5 bytes");
  frame.pop_back();
  EXPECT_DEATH(bound.pass(frame, packet, 3_MB), "bytes is not that of its packet");
}

}  // namespace
}  // namespace tombolo::wanem
