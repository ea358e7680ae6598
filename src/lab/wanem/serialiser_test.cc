#include "lab/wanem/serialiser.h"

#include <gtest/gtest.h>

#include "support/test_times.h"

namespace tombolo::wanem {
namespace {

// `count` segments of 1500 bytes, the last one shorter where told.
Cargo segments(uint32_t count, uint32_t last_bytes = 1500) {
  return {.last = count, .frame_segments = count, .segment_bytes = 1500, .last_bytes = last_bytes};
}

Serialiser constant(BytesPerSecond rate, Bytes limit = 1_MB) {
  Serialiser out;
  out.reshape({}, {.rate = rate, .limit = limit});
  return out;
}

TEST(Cargo, TakesFromTheFront) {
  Cargo cargo = segments(4, 100);
  EXPECT_EQ(cargo.bytes(), 3 * 1500u + 100u);
  const Cargo front = cargo.take(3);
  EXPECT_EQ(front.bytes(), 4500u);
  EXPECT_EQ(cargo.bytes(), 100u);
  EXPECT_EQ(cargo.first, 3u);
  EXPECT_EQ(cargo.take(1).bytes(), 100u);
  EXPECT_EQ(cargo.bytes(), 0u);
}

TEST(Serialiser, TheLastByteLeavesAfterItsTime) {
  // 12 Mbps are 1.5 bytes per microsecond: 1500 bytes take 1 ms.
  Serialiser link = constant(12_Mbps);
  EXPECT_EQ(link.send(at_us(0), 1500), at_us(1000));
  EXPECT_EQ(link.send(at_us(0), 1500), at_us(2000)) << "behind the first";
  EXPECT_EQ(link.send(at_us(1900), 1500), at_us(3000)) << "still busy";
  EXPECT_EQ(link.send(at_us(5000), 1500), at_us(6000)) << "idleness earns no credit";
}

TEST(Serialiser, RoundingDoesNotAddUp) {
  // 1500 bytes at 7 MB/s take 214,285.714 ns; 7000 of them exactly 1.5 s.
  Serialiser link = constant(7_MBps);
  SimTime end;
  for (int i = 0; i < 7000; ++i) end = link.send({}, 1500);
  EXPECT_EQ(end, SimTime{1'500'000'000});
}

TEST(Serialiser, TheBacklogDrainsAtTheRate) {
  Serialiser link = constant(12_Mbps);
  link.send(at_us(0), 6000);
  EXPECT_DOUBLE_EQ(link.backlog(at_us(0)), 6000);
  EXPECT_DOUBLE_EQ(link.backlog(at_us(1000)), 4500);
  EXPECT_DOUBLE_EQ(link.backlog(at_us(3999)), 1.5);
  EXPECT_DOUBLE_EQ(link.backlog(at_us(4000)), 0);
}

TEST(Serialiser, WhatDoesNotFitIsTheTail) {
  Serialiser link = constant(12_Mbps, 10_KB);
  EXPECT_EQ(link.admits(at_us(0), segments(20)), 6u) << "6 x 1500 = 9000 of 10000 bytes";
  link.send(at_us(0), 9000);
  EXPECT_EQ(link.admits(at_us(0), segments(1)), 0u);
  EXPECT_EQ(link.admits(at_us(0), segments(1, 1000)), 1u) << "exactly full";
  // After 1 ms 1500 bytes are gone: 2500 of 10,000 are free.
  EXPECT_EQ(link.admits(at_us(1000), segments(3)), 1u);
  EXPECT_EQ(link.admits(at_us(1000), segments(2, 1000)), 2u);
}

TEST(Serialiser, AnEmptyQueueTakesOneSegmentHoweverSmallItIs) {
  Serialiser link = constant(12_Mbps, 100_B);
  EXPECT_EQ(link.admits(at_us(0), segments(5)), 1u);
  link.send(at_us(0), 1500);
  EXPECT_EQ(link.admits(at_us(999), segments(5)), 0u);
  EXPECT_EQ(link.admits(at_us(1000), segments(5)), 1u);
}

TEST(Serialiser, FollowsATrace) {
  // 1 MB/s for 1 s, then 3 MB/s for 1 s, from second 10 on.
  Serialiser link;
  const auto trace = cluster::RateTrace::make({{{0}, 1_MBps}, {{1'000'000'000}, 3_MBps}},
                                              SimDuration{2'000'000'000});
  link.reshape({10'000'000'000}, {.trace = std::make_shared<cluster::RateTrace>(*trace),
                                  .origin = {10'000'000'000},
                                  .limit = 10_MB});
  // From 10.5 s: 0.5 MB until 11 s, 3 MB until 12 s, 0.5 MB until 12.5 s.
  EXPECT_EQ(link.send({10'500'000'000}, 4'000'000), SimTime{12'500'000'000});
  EXPECT_DOUBLE_EQ(link.backlog({11'500'000'000}), 2e6);
}

TEST(Serialiser, ANewRateHoldsForWhatComesNext) {
  Serialiser link = constant(12_Mbps);
  link.send(at_us(0), 15'000);  // until 10 ms
  link.reshape(at_us(4000), {.rate = 120_Mbps, .limit = 1_MB});
  EXPECT_DOUBLE_EQ(link.backlog(at_us(4000)), 9000);
  EXPECT_DOUBLE_EQ(link.backlog(at_us(7000)), 4500) << "the old bytes drain as they would have";
  EXPECT_EQ(link.send(at_us(5000), 1500), at_us(10'100)) << "behind them, ten times as fast";
  EXPECT_DOUBLE_EQ(link.backlog(at_us(7000)), 4500 + 1500);
  link.reshape(at_us(8000), {});
  EXPECT_EQ(link.send(at_us(9000), 1500), at_us(10'100)) << "no limit, yet in order";
}

TEST(Serialiser, ASlowLinkHandsOverInSmallPieces) {
  // 0.25 ms of 480 Mbps are 15,000 bytes: ten segments. Of 1 Mbps 31 bytes: still one.
  EXPECT_EQ(constant(480_Mbps).segments_at_once({}, segments(44)), 10u);
  EXPECT_EQ(constant(1_Mbps).segments_at_once({}, segments(44)), 1u);
  EXPECT_EQ(constant(10_Gbps).segments_at_once({}, segments(44)), 44u);
}

TEST(SerialiserDeathTest, InstantsDoNotGoBack) {
  Serialiser link = constant(12_Mbps);
  link.send(at_us(5), 1500);
  EXPECT_DEATH(link.send(at_us(4), 1500), "a queue at 5000 ns goes back to 4000 ns");
  EXPECT_DEATH(link.reshape(at_us(4), {}), "a queue at 5000 ns goes back to 4000 ns");
  EXPECT_DEATH(segments(4).take(5), "no 5 segments in .0, 4.");
}

}  // namespace
}  // namespace tombolo::wanem
