#include "lab/wanem/wan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "support/test_times.h"

namespace tombolo::wanem {
namespace {

constexpr SimTime kForever{INT64_MAX / 2};

Cargo cargo_of(uint32_t frame, uint32_t segments, uint32_t last_bytes = 1500) {
  return {.frame = frame,
          .last = segments,
          .frame_segments = segments,
          .segment_bytes = segments == 1 ? last_bytes : 1500,
          .last_bytes = last_bytes};
}

// Two hosts in each of two datacenters: 0 and 1 in the first, 2 and 3 in the second.
struct TestWan {
  uint64_t lost = 0, full = 0;
  std::vector<Cargo> dropped;
  Wan wan;

  explicit TestWan(const LinkShape& shape, uint64_t seed = 1)
      : wan({{"a-0", 0}, {"a-1", 0}, {"b-0", 1}, {"b-1", 1}},
            {{"a", "b"}, {{0, 1, shape}, {1, 0, shape}}}, {}, seed,
            [this](int, int, const Cargo& cargo, Wan::Fate fate) {
              (fate == Wan::Fate::kDroppedByLoss ? lost : full) += cargo.count();
              dropped.push_back(cargo);
            }) {}

  std::vector<Wan::Arrival> arrivals(SimTime until = kForever) {
    std::vector<Wan::Arrival> out;
    while (const auto arrival = wan.arrive(until)) out.push_back(*arrival);
    return out;
  }
};

TEST(Wan, OneFrameByHand) {
  // 2 segments at 120 Mbps, 15 bytes per microsecond: 3000 / 15 = 200 us, then 10 ms of delay.
  TestWan t({.delay = us(10'000), .node_pair_rate = 120_Mbps});
  t.wan.offer(at_us(5), 0, 2, cargo_of(9, 2));
  EXPECT_EQ(t.wan.next(), at_us(5 + 200 + 10'000));
  EXPECT_FALSE(t.wan.arrive(at_us(10'204)));
  const auto arrival = t.wan.arrive(at_us(20'000));
  ASSERT_TRUE(arrival);
  EXPECT_EQ(arrival->due, at_us(10'205));
  EXPECT_EQ(arrival->from, 0);
  EXPECT_EQ(arrival->to, 2);
  EXPECT_EQ(arrival->cargo, cargo_of(9, 2));
  EXPECT_FALSE(t.wan.next());
}

TEST(Wan, DirectionsAndPairsDoNotDisturbEachOther) {
  TestWan t({.delay = us(1000), .node_pair_rate = 12_Mbps});
  for (const auto& [from, to] : {std::pair(0, 2), {0, 3}, {1, 2}, {2, 0}}) {
    t.wan.offer({}, from, to, cargo_of(0, 1));
  }
  const auto all = t.arrivals();
  EXPECT_EQ(all.size(), 4u);
  for (const Wan::Arrival& arrival : all) EXPECT_EQ(arrival.due, at_us(2000));
}

TEST(Wan, PairsShareThePath) {
  // Each pair could have 120 Mbps; together they have 120 Mbps, 100 us per segment.
  TestWan t({.delay = us(1000), .node_pair_rate = 120_Mbps, .path_rate = 120_Mbps});
  t.wan.offer({}, 0, 2, cargo_of(0, 1));
  t.wan.offer({}, 1, 3, cargo_of(1, 1));
  const auto all = t.arrivals();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].due, at_us(100 + 100 + 1000)) << "store and forward, twice";
  EXPECT_EQ(all[1].due, at_us(100 + 200 + 1000)) << "then the other pair's";
}

TEST(Wan, AQueueOfOnePairDoesNotHoldUpAnother) {
  // Pair 0 -> 2 has 100 segments of 1 ms each in its own queue; the path, ten times as fast, is
  // idle nine tenths of the time, and a packet of pair 1 -> 3 finds it so.
  TestWan t({.delay = us(0), .node_pair_rate = 12_Mbps, .path_rate = 120_Mbps, .queue = 1_MB});
  t.wan.offer({}, 0, 2, cargo_of(0, 100));
  t.wan.offer(at_us(150), 1, 3, cargo_of(1, 1));
  // The other pair has the path from 1000 to 1100 us and from 2000 us on.
  int others = 0;
  for (const Wan::Arrival& arrival : t.arrivals()) {
    if (arrival.from == 1) {
      ++others;
      EXPECT_EQ(arrival.due, at_us(150 + 1000 + 100));
    }
  }
  EXPECT_EQ(others, 1);
}

TEST(Wan, WhereNothingLeadsNothingGoes) {
  const Scenario oneway{{"a", "b"}, {{0, 1, {}}}};
  Wan wan({{"a-0", 0}, {"b-0", 1}}, oneway, {}, 1, nullptr);
  EXPECT_TRUE(wan.connects(0, 1));
  EXPECT_FALSE(wan.connects(1, 0));
  EXPECT_FALSE(wan.connects(0, 0));
}

TEST(Wan, ALostSegmentLeavesAHoleAndHasUsedTheRate) {
  TestWan t({.loss = 0.2, .node_pair_rate = 120_Mbps}, 4);
  t.wan.offer({}, 0, 2, cargo_of(0, 40));
  const auto all = t.arrivals();
  ASSERT_FALSE(t.dropped.empty());
  ASSERT_FALSE(all.empty());
  for (const Wan::Arrival& arrival : all) {
    EXPECT_EQ(arrival.due, at_us(100 * arrival.cargo.last)) << "100 us for each before its end";
  }
}

TEST(Wan, ReloadChangesWhatComesNextAndKeepsTheOrder) {
  TestWan t({.delay = us(50'000), .node_pair_rate = 120_Mbps});
  t.wan.offer({}, 0, 2, cargo_of(0, 1));
  const LinkShape faster{.delay = us(10'000), .node_pair_rate = 1200_Mbps};
  t.wan.reload(at_us(10), {{"a", "b"}, {{0, 1, faster}}});
  EXPECT_FALSE(t.wan.connects(2, 0)) << "left out";
  t.wan.offer(at_us(20), 0, 2, cargo_of(1, 1));
  t.wan.offer(at_us(45'000), 0, 2, cargo_of(2, 1));
  const auto all = t.arrivals();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].due, at_us(50'100)) << "as it would have";
  EXPECT_EQ(all[1].due, at_us(50'100)) << "would be there before: waits";
  EXPECT_EQ(all[2].due, at_us(45'000 + 10 + 10'000));
}

// A random link and random frames. The link is one of constant rates and of traces.
struct RandomLink {
  Random random;
  LinkShape shape;
  double limit;

  explicit RandomLink(uint64_t seed) : random(seed) {
    shape.delay = us(static_cast<int64_t>(random.below(100'000)));
    shape.queue = Bytes{2000 + static_cast<double>(random.below(300'000))};
    limit = shape.queue->value;
    if (random.below(2) == 0) {
      shape.node_pair_rate = BytesPerSecond{1e5 + random.uniform() * 1e8};
    } else {
      std::vector<cluster::RateTrace::Step> steps;
      SimDuration at;
      for (int i = 0; i < 7; ++i) {
        const double rate = i > 0 && random.below(4) == 0 ? 0 : 1e5 + random.uniform() * 1e8;
        steps.push_back({at, BytesPerSecond{rate}});
        at += us(1 + static_cast<int64_t>(random.below(20'000)));
      }
      shape.trace = *cluster::RateTrace::make(steps, at);
    }
  }
  SimDuration gap() {
    return random.below(3) == 0 ? SimDuration{}
                                : SimDuration{static_cast<int64_t>(random.below(8'000'000))};
  }
  Cargo frame(uint32_t number) {
    const auto segments = static_cast<uint32_t>(1 + random.below(44));
    return cargo_of(number, segments, 52 + static_cast<uint32_t>(random.below(1449)));
  }
  // When `bytes` have left that start at `start`, by the law.
  SimTime finish(SimTime start, double bytes) const {
    if (shape.node_pair_rate) {
      return start + round_to_ns(Bytes{bytes} / *shape.node_pair_rate);
    }
    return SimTime{} + shape.trace.finish(start - SimTime{}, bytes);
  }
};

TEST(WanProperties, DeparturesFollowTheClosedFormForAThousandSeeds) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    RandomLink link(seed);
    TestWan t(link.shape);
    SimTime now;
    // By the law: within a busy period that began at s, b bytes have left at finish(s, b).
    SimTime busy_since, free_at;
    double busy_bytes = 0;
    uint32_t segments_in = 0, segments_out = 0;
    std::vector<std::pair<Cargo, SimTime>> expected;  // what was admitted; when its end leaves
    for (uint32_t i = 0; i < 60; ++i) {
      now = now + link.gap();
      const Cargo cargo = link.frame(i);
      const uint64_t full_before = t.full;
      t.wan.offer(now, 0, 2, cargo);
      segments_in += cargo.count();
      const auto admitted = cargo.count() - static_cast<uint32_t>(t.full - full_before);

      if (now > free_at) {
        busy_since = now;
        busy_bytes = 0;
      }
      // The queue by the definition: what has come in this busy period less what has left.
      double left = 0;
      if (now < free_at) {
        left = link.shape.node_pair_rate
                   ? link.shape.node_pair_rate->value * seconds(now - busy_since).value
                   : link.shape.trace.bytes_between(busy_since - SimTime{}, now - SimTime{});
      }
      const double waiting = now < free_at ? std::max(0.0, busy_bytes - left) : 0;
      Cargo rest = cargo;
      Cargo front = rest.take(admitted);
      const double after = waiting + static_cast<double>(front.bytes());
      // Never above the limit, but for one segment that finds the queue empty.
      if (waiting > 0 || admitted > 1) {
        EXPECT_LE(after, link.limit + 1e-3) << "seed " << seed;
      }
      // And nothing is dropped that would have fitted.
      if (rest.count() > 0) {
        const double next = rest.count() == 1 ? rest.last_bytes : rest.segment_bytes;
        EXPECT_GT(after + next, link.limit - 1e-3) << "seed " << seed;
      }
      if (admitted == 0) continue;
      busy_bytes += static_cast<double>(front.bytes());
      free_at = std::max(free_at, link.finish(busy_since, busy_bytes));
      expected.push_back({front, free_at});
    }
    EXPECT_EQ(t.wan.segments_inside() + t.full, segments_in);

    // Pieces of one frame add up to it, the last one leaves when the law says, none overtakes.
    size_t frame = 0;
    uint32_t next_segment = 0;
    SimTime before{INT64_MIN};
    for (const Wan::Arrival& arrival : t.arrivals()) {
      ASSERT_LT(frame, expected.size());
      const auto& [cargo, end] = expected[frame];
      EXPECT_EQ(arrival.cargo.frame, cargo.frame) << "seed " << seed;
      EXPECT_EQ(arrival.cargo.first, next_segment) << "seed " << seed;
      EXPECT_GE(arrival.due, before);
      before = arrival.due;
      segments_out += arrival.cargo.count();
      next_segment = arrival.cargo.last;
      if (next_segment < cargo.last) continue;
      EXPECT_EQ(arrival.due, end + link.shape.delay) << "seed " << seed;
      ++frame;
      next_segment = 0;
    }
    EXPECT_EQ(frame, expected.size()) << "seed " << seed;
    EXPECT_EQ(segments_out + t.full, segments_in) << "seed " << seed;
    EXPECT_EQ(t.wan.segments_inside(), 0u);
  }
}

TEST(WanProperties, NeverFasterThanTheRateForAThousandSeeds) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    RandomLink link(seed);
    TestWan t(link.shape);
    SimTime now;
    for (uint32_t i = 0; i < 60; ++i) {
      now = now + link.gap();
      t.wan.offer(now, 0, 2, link.frame(i));
    }
    const auto all = t.arrivals();
    // Between the ends of any two pieces the link carries no more than its rate does in that time;
    // each end is rounded by half a nanosecond, at no more than 1e8 bytes per second.
    for (size_t i = 0; i < all.size(); i += 7) {
      double bytes = 0;
      for (size_t j = i + 1; j < all.size(); ++j) {
        bytes += static_cast<double>(all[j].cargo.bytes());
        const SimTime from = all[i].due - link.shape.delay, to = all[j].due - link.shape.delay;
        const double most = link.shape.node_pair_rate
                                ? link.shape.node_pair_rate->value * seconds(to - from).value
                                : link.shape.trace.bytes_between(from - SimTime{}, to - SimTime{});
        ASSERT_LE(bytes, most + 0.2) << "seed " << seed;
      }
    }
  }
}

TEST(WanProperties, WithChanceOrderAndConservationHoldForAThousandSeeds) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    RandomLink link(seed);
    link.shape.loss = 0.05;
    link.shape.loss_burst = 1 + static_cast<double>(seed % 4);
    link.shape.jitter = us(static_cast<int64_t>(seed % 3) * 2000);
    if (seed % 2) link.shape.path_rate = 200_Mbps;
    TestWan t(link.shape, seed);
    SimTime now;
    uint64_t in = 0, out = 0;
    std::vector<std::pair<uint32_t, uint32_t>> last(16);  // per pair: frame and segment, as seen
    SimTime before{INT64_MIN};
    const auto take = [&](SimTime until) {
      while (const auto arrival = t.wan.arrive(until)) {
        EXPECT_GE(arrival->due, before) << "seed " << seed;
        EXPECT_LE(arrival->due, until);
        before = arrival->due;
        auto& seen = last[static_cast<size_t>(arrival->from * 4 + arrival->to)];
        const std::pair here(arrival->cargo.frame, arrival->cargo.last);
        EXPECT_GT(here, seen) << "overtaken, seed " << seed;
        seen = here;
        out += arrival->cargo.count();
      }
    };
    for (uint32_t i = 1; i <= 80; ++i) {
      now = now + link.gap();
      take(now);
      const Cargo cargo = link.frame(i);
      t.wan.offer(now, static_cast<int>(i % 2), 2 + static_cast<int>(i % 3 > 0), cargo);
      in += cargo.count();
      ASSERT_EQ(in, out + t.lost + t.full + t.wan.segments_inside()) << "seed " << seed;
    }
    take(kForever);
    ASSERT_EQ(in, out + t.lost + t.full) << "seed " << seed;
    ASSERT_FALSE(t.wan.next());
  }
}

// The two stages the slow and obvious way: every packet through its pair's server, sorted by when
// it leaves, through the shared server.
TEST(WanProperties, ASharedPathAgreesWithTwoServersInARowForAThousandSeeds) {
  struct PacketInOracle {
    double leaves;
    uint32_t number;
    double bytes;
  };
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Random random(seed);
    const double pair_rate = 1e6 + random.uniform() * 1e7, path_rate = 1e6 + random.uniform() * 1e7;
    TestWan t({.delay = us(3000),
               .node_pair_rate = BytesPerSecond{pair_rate},
               .path_rate = BytesPerSecond{path_rate},
               .queue = 1_GB});
    std::vector<PacketInOracle> packets;
    double free_at[4] = {};
    SimTime now;
    std::vector<Wan::Arrival> arrivals;
    for (uint32_t i = 0; i < 100; ++i) {
      now = now + SimDuration{static_cast<int64_t>(random.below(300'000))};
      // Asking for arrivals in between, often or not, changes nothing.
      if (random.below(3) == 0) {
        const auto some = t.arrivals(now);
        arrivals.insert(arrivals.end(), some.begin(), some.end());
      }
      const int pair = static_cast<int>(random.below(4));
      const Cargo cargo = cargo_of(i, 1, 52 + static_cast<uint32_t>(random.below(1449)));
      t.wan.offer(now, pair / 2, 2 + pair % 2, cargo);
      const auto bytes = static_cast<double>(cargo.bytes());
      free_at[pair] =
          std::max(free_at[pair], static_cast<double>(now.ns)) + bytes / pair_rate * 1e9;
      packets.push_back({free_at[pair], i, bytes});
    }
    const auto rest = t.arrivals();
    arrivals.insert(arrivals.end(), rest.begin(), rest.end());
    std::sort(packets.begin(), packets.end(),
              [](const auto& a, const auto& b) { return a.leaves < b.leaves; });
    ASSERT_EQ(arrivals.size(), packets.size());
    double shared_free_at = 0;
    for (size_t i = 0; i < packets.size(); ++i) {
      shared_free_at =
          std::max(shared_free_at, packets[i].leaves) + packets[i].bytes / path_rate * 1e9;
      ASSERT_EQ(arrivals[i].cargo.frame, packets[i].number) << "seed " << seed;
      // Each stage rounds to a nanosecond.
      ASSERT_NEAR(static_cast<double>(arrivals[i].due.ns), shared_free_at + 3e6, 2.5)
          << "seed " << seed;
    }
  }
}

TEST(WanProperties, TheSameSeedLosesTheSame) {
  const auto lost = [](uint64_t seed) {
    TestWan t({.delay = us(10), .jitter = us(5), .loss = 0.1}, seed);
    for (uint32_t i = 0; i < 50; ++i) t.wan.offer(at_us(i), 0, 2, cargo_of(i, 10));
    std::vector<int64_t> out;
    for (const Wan::Arrival& arrival : t.arrivals()) out.push_back(arrival.due.ns);
    for (const Cargo& cargo : t.dropped) out.push_back(cargo.frame * 100 + cargo.first);
    return out;
  };
  EXPECT_EQ(lost(1), lost(1));
  EXPECT_NE(lost(1), lost(2));
}

TEST(WanDeathTest, ItsOwnerKeepsItsPromises) {
  TestWan t({.node_pair_rate = 120_Mbps});
  EXPECT_DEATH(t.wan.connects(0, 4), "from host 0 to 4 of 4");
  EXPECT_DEATH(t.wan.offer(at_us(5), 0, 1, cargo_of(9, 2)), "nothing leads from a-0 to a-1");
  EXPECT_DEATH(t.wan.offer(at_us(5), 0, 2, cargo_of(9, 0)), "segments .0, 0. of a frame of 0");
  t.wan.offer(at_us(5), 0, 2, cargo_of(9, 2));
  EXPECT_DEATH(t.wan.arrive(at_us(4)), "the WAN at 5000 ns goes back to 4000 ns");
}

}  // namespace
}  // namespace tombolo::wanem
