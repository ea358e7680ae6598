#include "perform/link/goodput.h"

#include <gtest/gtest.h>

namespace tombolo::link {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

TEST(GoodputMeter, FindsASteadyRate) {
  GoodputMeter meter;
  for (int64_t i = 0; i <= 10; ++i)  // 25,000 B every 20 ms are 1.25 MB/s
    meter.sample({i * 20 * kMillisecond}, static_cast<uint64_t>(i) * 25'000);
  EXPECT_DOUBLE_EQ(meter.rate().value, 1.25e6);
}

// A mean over about 100 ms: after 20 ms of the new rate a sixth of the way is done.
TEST(GoodputMeter, FollowsAChange) {
  GoodputMeter meter;
  meter.sample({0}, 0);
  meter.sample({20 * kMillisecond}, 20'000);  // 1 MB/s
  meter.sample({40 * kMillisecond}, 20'000);  // nothing
  EXPECT_DOUBLE_EQ(meter.rate().value, 1e6 * 5 / 6);
}

TEST(GoodputMeter, SoonIsNotAsked) {
  GoodputMeter meter;
  meter.sample({0}, 0);
  EXPECT_FALSE(meter.due({19 * kMillisecond}));
  meter.sample({kMillisecond}, 1'000'000);
  EXPECT_EQ(meter.rate().value, 0);
}

// A pause, and then a round trip until the first bytes are acknowledged: neither is slowness.
TEST(GoodputMeter, APauseIsNotSlowness) {
  GoodputMeter meter;
  meter.sample({0}, 0);
  meter.sample({20 * kMillisecond}, 20'000);
  meter.pause();
  meter.sample({1000 * kMillisecond}, 20'000);
  meter.sample({1020 * kMillisecond}, 20'000);
  meter.sample({1040 * kMillisecond}, 20'000);
  EXPECT_DOUBLE_EQ(meter.rate().value, 1e6);
  meter.sample({1060 * kMillisecond}, 40'000);
  EXPECT_DOUBLE_EQ(meter.rate().value, 1e6);
}

// 1 Gbps over 8 connections: 15 ms are 1.875 MB, 234,375 B each; half of it is a segment.
TEST(Commitment, IsFifteenMillisecondsOfTheRate) {
  const Commitment share = commitment({8, 1_Gbps, 1_Gbps / 8}, 1_Gbps / 8);
  EXPECT_EQ(share.mark, 234'375u);
  EXPECT_EQ(share.segment_max, 117'187u);
  EXPECT_EQ(share.tail, 0u);
}

TEST(Commitment, HasBoundsOnBothSides) {
  EXPECT_EQ(commitment({16, {}, {}}, {}).segment_max, 8u * 1024);
  EXPECT_EQ(commitment({16, {}, {}}, {}).mark, 8u * 1024);
  EXPECT_EQ(commitment({1, 100_Gbps, 100_Gbps}, 100_Gbps).segment_max, 256u * 1024);
}

TEST(Commitment, ASlowConnectionLeavesTheTail) {
  const LinkRates rates{2, 10_Gbps, 8_Gbps};
  EXPECT_EQ(commitment(rates, 8_Gbps).tail, 0u);
  EXPECT_EQ(commitment(rates, 2_Gbps).tail, 0u);
  EXPECT_EQ(commitment(rates, 1_Gbps).tail, 2u * 2 * 256 * 1024);
}

}  // namespace
}  // namespace tombolo::link
