#include "lab/wanem/frame_pool.h"

#include <gtest/gtest.h>

namespace tombolo::wanem {
namespace {

Packet packet_of(uint32_t segments) {
  Packet packet;
  packet.segments = segments;
  return packet;
}

TEST(FramePool, UsesANumberAgainAfterTheLastSegment) {
  FramePool pool;
  pool.space()[0] = 7;
  const uint32_t first = pool.keep(100, packet_of(3));
  EXPECT_EQ(pool[first].bytes()[0], 7);
  pool.release(first, 2);
  EXPECT_EQ(pool.in_use(), 1u);
  pool.release(first, 1);
  EXPECT_EQ(pool.in_use(), 0u);
  pool.space();
  EXPECT_EQ(pool.keep(kFrameMax, packet_of(1)), first);
}

TEST(FramePoolDeathTest, FramesAreKeptAndReleasedOnce) {
  FramePool pool;
  EXPECT_DEATH(pool.keep(100, packet_of(1)), "no frame of 100 bytes was read");
  pool.space();
  EXPECT_DEATH(pool.keep(100, packet_of(0)), "a frame of no segments would stay for ever");
  const uint32_t number = pool.keep(100, packet_of(1));
  EXPECT_DEATH(pool.release(number, 2), "frame 0 has 1 segments left, not 2");
  EXPECT_DEATH(pool.release(number + 1, 1), "frame 1 of 1");
}

}  // namespace
}  // namespace tombolo::wanem
