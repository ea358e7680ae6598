#include "spec/cluster/rate_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "support/test_times.h"

namespace tombolo::cluster {
namespace {

using testing::HasSubstr;

RateTrace parsed(const char* csv) {
  auto trace = parse_rate_trace(csv, "t.csv");
  EXPECT_TRUE(trace) << trace.error().text();
  return trace.value_or(RateTrace());
}
std::string complaint(const char* csv) {
  const auto trace = parse_rate_trace(csv, "t.csv");
  return trace ? "" : trace.error().text();
}

// 8 Mbps for 1 s, nothing for 1 s, 16 Mbps for 1 s: 1 MB, 0 and 2 MB, 3 MB in 3 s.
constexpr const char* kThree = "time_s,rate_mbps\n0,8\n1,0\n2,16\n";

TEST(RateTrace, TheIntegralByHand) {
  const RateTrace trace = parsed(kThree);
  EXPECT_EQ(trace.period(), ms(3000));
  EXPECT_DOUBLE_EQ(trace.mean().value, 1e6);
  EXPECT_DOUBLE_EQ(trace.bytes_between(ms(500), ms(2500)), 0.5e6 + 0 + 1e6);
  EXPECT_DOUBLE_EQ(trace.bytes_between(ms(2500), ms(6500)), 1e6 + 3e6 + 0.5e6);
  EXPECT_DOUBLE_EQ(trace.rate_at(ms(4999)).value, 0);
}

TEST(RateTrace, TheNextChangeByHand) {
  const RateTrace trace = parsed(kThree);
  EXPECT_DOUBLE_EQ(trace.highest().value, 2e6);
  EXPECT_EQ(trace.next_change(ms(0)), ms(1000));
  EXPECT_EQ(trace.next_change(ms(999)), ms(1000));
  EXPECT_EQ(trace.next_change(ms(1000)), ms(2000));
  EXPECT_EQ(trace.next_change(ms(2500)), ms(3000)) << "it starts over";
  EXPECT_EQ(trace.next_change(ms(7500)), ms(8000));
  EXPECT_EQ(parsed("time_s,rate_mbps\n0,8\n1,8\n").next_change(ms(0)), std::nullopt);
  // The last step's rate is the first one's: no change where it starts over.
  EXPECT_EQ(parsed("time_s,rate_mbps\n0,8\n1,4\n2,8\n").next_change(ms(2500)), ms(4000));
}

TEST(RateTrace, TheFinishByHand) {
  const RateTrace trace = parsed(kThree);
  EXPECT_EQ(trace.finish(ms(0), 250e3), ms(250));
  EXPECT_EQ(trace.finish(ms(900), 100e3), ms(1000)) << "just before the outage";
  EXPECT_EQ(trace.finish(ms(900), 101e3), SimDuration{2'000'500'000}) << "1 kB after it";
  EXPECT_EQ(trace.finish(ms(1500), 2e6), ms(3000));
  EXPECT_EQ(trace.finish(ms(1500), 2e6 + 6e6 + 1e6), ms(10000)) << "two periods more and 1 s";
  EXPECT_EQ(trace.finish(ms(1500), 0), ms(1500));
}

TEST(RateTrace, FinishInvertsTheIntegral) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Random random(seed);
    std::vector<RateTrace::Step> steps;
    SimDuration at;
    for (uint64_t i = 0; i <= random.below(20); ++i) {
      const double rate = random.below(4) == 0 ? 0 : 1e3 + random.uniform() * 1e8;
      steps.push_back({at, BytesPerSecond{rate}});
      at += {1 + static_cast<int64_t>(random.below(1'000'000'000))};
    }
    steps[0].rate = 1_MBps;
    const auto trace = RateTrace::make(steps, at);
    ASSERT_TRUE(trace);
    const SimDuration start{static_cast<int64_t>(random.below(10'000'000'000))};
    const double bytes = random.uniform() * 1e8;
    const SimDuration end = trace->finish(start, bytes);
    // Half a nanosecond of rounding at no more than 1e8 bytes per second is 0.05 bytes.
    EXPECT_NEAR(trace->bytes_between(start, end), bytes, 0.06) << "seed " << seed;
    // It is the first such instant: a nanosecond earlier there was less.
    EXPECT_LT(trace->bytes_between(start, end - SimDuration{1}), bytes) << "seed " << seed;
  }
}

TEST(RateTrace, SplittingBytesChangesNothing) {
  const RateTrace trace = parsed(kThree);
  // 3,000 segments of 1500 bytes along the sum: the last one ends where all of them would.
  EXPECT_EQ(trace.finish(ms(0), 3000 * 1500.0), trace.finish({}, 4.5e6));
  EXPECT_EQ(trace.finish({}, 4.5e6), SimDuration{5'250'000'000});  // 3 MB, 1 MB, 0.5 MB at 2 MB/s
}

TEST(RateTrace, WhatIsWrittenReadsBack) {
  const RateTrace trace = parsed("time_s,rate_mbps\r\n0,193\r\n0.5,87.25\r\n1.25,0.001\r\n");
  EXPECT_EQ(trace.period(), ms(2000)) << "the last step lasts as long as the one before it";
  EXPECT_EQ(parsed(to_csv(trace).c_str()), trace);
}

TEST(RateTrace, MessagesBlameTheLine) {
  EXPECT_THAT(complaint("time,rate\n"), HasSubstr("t.csv:1: not the header"));
  EXPECT_THAT(complaint("time_s,rate_mbps\n"), HasSubstr("no line with a time and a rate"));
  EXPECT_THAT(complaint("time_s,rate_mbps\n0,8\n1;9\n"), HasSubstr("t.csv:3: \"1;9\""));
  EXPECT_THAT(complaint("time_s,rate_mbps\n0,8,9\n"), HasSubstr("t.csv:2"));
  EXPECT_THAT(complaint("time_s,rate_mbps\n0,nan\n"), HasSubstr("t.csv:2"));
  EXPECT_THAT(complaint("time_s,rate_mbps\n0,-1\n"), HasSubstr("rate_mbps = -1"));
  EXPECT_THAT(complaint("time_s,rate_mbps\n1,8\n"), HasSubstr("the first time must be 0"));
  EXPECT_THAT(complaint("time_s,rate_mbps\n0,8\n2,8\n2,9\n"), HasSubstr("t.csv:4: time_s = 2"));
  EXPECT_THAT(complaint("time_s,rate_mbps\n0,0\n"), HasSubstr("less than 8 bits"));
}

TEST(RateTrace, CallersKeepTheirPromises) {
  EXPECT_DEATH(RateTrace().mean(), "the mean of no rate");
  EXPECT_DEATH(RateTrace().scaled(-1), "rates times -1");
}

}  // namespace
}  // namespace tombolo::cluster
