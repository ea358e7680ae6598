#include "perform/link/pacer.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tombolo::link {
namespace {

// 1 Gbps = 0.125 B/ns: 1,000 B take 8,000 ns.
TEST(Pacer, AnIdleLinkTakesAMessageAtOnce) {
  Pacer pacer(1_Gbps);
  EXPECT_EQ(pacer.take({500}, 1000), (Slot{{500}, {8500}}));
}

TEST(Pacer, MessagesFollowEachOther) {
  Pacer pacer(1_Gbps);
  EXPECT_EQ(pacer.take({0}, 1000), (Slot{{0}, {8000}}));
  EXPECT_EQ(pacer.take({100}, 500), (Slot{{8000}, {12000}}));
  EXPECT_EQ(pacer.take({12000}, 500), (Slot{{12000}, {16000}}));
}

TEST(Pacer, IdlenessEarnsNoCredit) {
  Pacer pacer(1_Gbps);
  pacer.take({0}, 1000);
  // Idle from 8,000 to 1,000,000: the next two still take 8,000 ns each.
  EXPECT_EQ(pacer.take({1'000'000}, 1000), (Slot{{1'000'000}, {1'008'000}}));
  EXPECT_EQ(pacer.take({1'000'000}, 1000), (Slot{{1'008'000}, {1'016'000}}));
}

TEST(Pacer, RoundingDoesNotAddUp) {
  // 3 B/s: a byte takes 333,333,333.3 ns, three of them one second exactly.
  Pacer pacer({3});
  EXPECT_EQ(pacer.take({0}, 1).end, SimTime{333'333'333});
  EXPECT_EQ(pacer.take({0}, 1).end, SimTime{666'666'667});
  EXPECT_EQ(pacer.take({0}, 1).end, SimTime{1'000'000'000});
}

TEST(Pacer, ChunksOfAnySizeEndWhereTheMessageWould) {
  Random random = Random(1).stream("pacer");
  for (int round = 0; round < 1000; ++round) {
    const BytesPerSecond rate{1e3 + random.uniform() * 1e9};
    const SimTime start{static_cast<int64_t>(random.below(1'000'000'000))};
    Pacer pacer(rate);
    uint64_t total = 0;
    Slot last;
    for (int chunk = 0; chunk < 20; ++chunk) {
      const uint64_t bytes = random.below(1 << 18);
      last = pacer.take(start, bytes);
      total += bytes;
    }
    EXPECT_EQ(last.end, start + round_to_ns(Bytes{static_cast<double>(total)} / rate));
  }
}

TEST(Delivery, WaitsForTheDelayOrForTheBytes) {
  EXPECT_EQ(delivery({1000}, {1200}, {500}), SimTime{1500});  // early: held until 1000 + 500
  EXPECT_EQ(delivery({1000}, {1800}, {500}), SimTime{1800});  // late: nothing to make up for
}

TEST(LinkShape, CutsAboutAMillisecondOfTheRate) {
  EXPECT_EQ(LinkShape{}.segment_max(), 262'144u);
  EXPECT_EQ(LinkShape{.rate = 1_Gbps}.segment_max(), 125'000u);    // 125e6 B/s * 1 ms
  EXPECT_EQ(LinkShape{.rate = 10_Mbps}.segment_max(), 16'384u);    // 1,250 B would be too small
  EXPECT_EQ(LinkShape{.rate = 100_Gbps}.segment_max(), 262'144u);  // 12.5 MB too large
}

TEST(LinkShape, NonsenseIsNamed) {
  EXPECT_TRUE((LinkShape{.rate = 1_Gbps, .delay = {20'000'000}}.check()));
  EXPECT_EQ((LinkShape{.rate = 0_Gbps}.check().error().code), ErrorCode::kUnusable);
  EXPECT_EQ((LinkShape{.delay = {-1}}.check().error().code), ErrorCode::kUnusable);
}

}  // namespace
}  // namespace tombolo::link
