#include "predict/network/chunked_all_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace tombolo::network {
namespace {

double share_sent(const AllReduceDimension& dimension) {
  return static_cast<double>(dimension.npus - 1) / static_cast<double>(dimension.npus);
}

// The closed form of the header, of the order `baseline`; `collective` must be one that play() takes.
Seconds baseline_time(const ChunkedAllReduce& collective) {
  Bytes left = 2 * collective.size;
  Seconds before, busiest, exposed;
  for (const AllReduceDimension& dimension : collective.dimensions) {
    const Seconds time = left * share_sent(dimension) / dimension.bandwidth;
    if (time > busiest) {
      busiest = time;
      exposed = before;
    }
    before += time;
    left = left / static_cast<double>(dimension.npus);
  }
  return busiest + exposed / static_cast<double>(collective.chunks);
}

using ::testing::HasSubstr;

// Two dimensions of 2 NPUs at 1 and 1 B/s, 8 bytes in 2 chunks of 4. A chunk takes 2 s in the
// first dimension, 2 * 1 s in the second, 2 s in the first again:
//   first    |a a|b b|a' a'|b' b'|   second  .  .|a a|b b|
// Chunk a is back at 4 s and finds the first dimension free, so that nothing is exposed: 8 s.
TEST(ChunkedAllReduce, TwoChunksByHand) {
  const ChunkedAllReduce c{
      .dimensions = {{2, 1_B / 1_s}, {2, 1_B / 1_s}}, .size = 8_B, .chunks = 2};
  const ChunkedAllReduceTimes t = *play(c);
  EXPECT_EQ(t.time, 8_s);
  EXPECT_EQ(baseline_time(c), 8_s);
  EXPECT_EQ(t.sent, (std::vector<Bytes>{8_B, 4_B}));
  EXPECT_EQ(t.ideal, 6_s);  // 2 * 8 * 3/4 over 2 B/s
}

// With one chunk nothing overlaps: 2 s, 2 s and 2 s at 1 B/s for 4 bytes.
TEST(ChunkedAllReduce, OneChunkTakesAllItsPhases) {
  const ChunkedAllReduce c{
      .dimensions = {{2, 1_B / 1_s}, {2, 1_B / 1_s}}, .size = 4_B, .chunks = 1};
  EXPECT_EQ(play(c)->time, 6_s);
}

// Systems of the paper's tables I and III in units of 50 B/s: only filling and draining the
// dimensions before the busiest is exposed.
TEST(ChunkedAllReduce, TheBaselineTakesItsClosedForm) {
  const std::vector<std::vector<AllReduceDimension>> systems = {
      {{512, 7_B / 1_s}},
      {{32, 5_B / 1_s}, {16, 5_B / 1_s}},
      {{16, 4_B / 1_s}, {8, 2_B / 1_s}, {4, 1_B / 1_s}},
      {{2, 5_B / 1_s}, {8, 4_B / 1_s}, {8, 2_B / 1_s}, {4, 1_B / 1_s}},
      {{2, 20_B / 1_s}, {8, 4_B / 1_s}, {8, 2_B / 1_s}, {32, 1_B / 1_s}},
      {{4, 20_B / 1_s}, {8, 4_B / 1_s}, {8, 2_B / 1_s}, {4, 1_B / 1_s}},
      {{16, 20_B / 1_s}, {8, 4_B / 1_s}, {8, 2_B / 1_s}, {4, 1_B / 1_s}}};
  for (const auto& dimensions : systems) {
    const ChunkedAllReduce c{.dimensions = dimensions, .size = 1_GiB, .chunks = 64};
    EXPECT_NEAR(play(c)->time / baseline_time(c), 1, 1e-12) << dimensions[0].npus;
  }
}

// Whatever the order: nobody is faster than all links always busy, nor than the busiest dimension,
// and the baseline sends by its formula and is never faster than its closed form.
TEST(ChunkedAllReduce, BoundsOnRandomSystems) {
  Random random(7);
  for (int i = 0; i < 200; ++i) {
    ChunkedAllReduce c{.size = 1_GiB, .chunks = 1 + static_cast<int64_t>(random.below(64))};
    for (uint64_t d = 1 + random.below(4); d > 0; --d) {
      c.dimensions.push_back({2 + static_cast<int64_t>(random.below(15)),
                              (1 + static_cast<double>(random.below(20))) * 50_GBps});
    }
    for (const DimensionScheduling order :
         {DimensionScheduling::kBaseline, DimensionScheduling::kThemis}) {
      for (const ChunkChoice choice : {ChunkChoice::kFirstCome, ChunkChoice::kSmallest}) {
        c.order = order;
        c.choice = choice;
        const ChunkedAllReduceTimes t = *play(c);
        double sent = 0, busiest = 0, npus = 1;
        for (size_t d = 0; d < c.dimensions.size(); ++d) {
          sent += t.sent[d].value;
          busiest = std::max(busiest, (t.sent[d] / c.dimensions[d].bandwidth).value);
          npus *= static_cast<double>(c.dimensions[d].npus);
        }
        EXPECT_NEAR(sent / (2 * c.size.value * (npus - 1) / npus), 1, 1e-12);
        EXPECT_GE(t.time.value, t.ideal.value * (1 - 1e-12));
        EXPECT_GE(t.time.value, busiest * (1 - 1e-12));
        if (order == DimensionScheduling::kBaseline) {
          EXPECT_GE(t.time.value, baseline_time(c).value * (1 - 1e-12)) << i;
        }
      }
    }
  }
}

TEST(ChunkedAllReduce, RefusesWhatCannotBe) {
  const auto text = [](const ChunkedAllReduce& c) { return play(c).error().text(); };
  EXPECT_THAT(text({.size = 1_B}), HasSubstr("no dimension"));
  EXPECT_THAT(text({.dimensions = {{1, 1_GBps}}, .size = 1_B}), HasSubstr("dimension 1"));
  EXPECT_THAT(text({.dimensions = {{2, {}}}, .size = 1_B}), HasSubstr("bandwidth"));
  EXPECT_THAT(text({.dimensions = {{2, 1_GBps}}}), HasSubstr("size"));
  EXPECT_THAT(text({.dimensions = {{2, 1_GBps}}, .size = 1_B, .chunks = 0}), HasSubstr("chunks"));
}

}  // namespace
}  // namespace tombolo::network
