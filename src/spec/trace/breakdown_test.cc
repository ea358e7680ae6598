#include "spec/trace/breakdown.h"

#include <gtest/gtest.h>

namespace tombolo::trace {
namespace {

Interval compute(int32_t rank, int64_t start, int64_t end, int64_t iteration = 1) {
  return {
      .lane = Lane::kCompute, .rank = rank, .iteration = iteration, .start = {start}, .end = {end}};
}
Interval link(int32_t rank, int32_t peer, int64_t start, int64_t end, int64_t bytes) {
  return {.lane = Lane::kLink,
          .rank = rank,
          .peer = peer,
          .action = {action::ActionKind::kSendActivation, rank, 0},
          .iteration = 1,
          .start = {start},
          .end = {end},
          .bytes = bytes};
}
Parts parts(int64_t compute, int64_t exposed, int64_t idle) {
  return {{compute}, {exposed}, {idle}};
}

// Rank 0 computes 0-10 and 25-30, rank 1 computes 18-26; messages 0 -> 1 at 5-15 and 12-18, and one
// 1 -> 0 at 26-28. The iteration lasts 30.
//   rank 0: computes 15. Links are busy 5-18 and 26-28; outside of its computing that is 10-18: 8.
//           Idle: 18-25: 7.
//   rank 1: computes 8; waits for links 5-18 and 26-28: 15; idle 0-5 and 28-30: 7.
Trace by_hand() {
  Trace trace;
  trace.header.ranks = {{0, 0, "oregon", "x"}, {1, 1, "paris", "x"}};
  trace.intervals = {compute(0, 0, 10),     compute(0, 25, 30),     compute(1, 18, 26),
                     link(0, 1, 5, 15, 70), link(0, 1, 12, 18, 20), link(1, 0, 26, 28, 30)};
  return trace;
}

TEST(Breakdown, ByHand) {
  const Breakdown result = breakdown(by_hand());
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[0].parts, parts(15, 8, 7));
  EXPECT_EQ(result.rows[1].parts, parts(8, 15, 7));
  EXPECT_EQ(result.sum, parts(23, 23, 14));
  EXPECT_EQ(result.sum.total().ns, 2 * 30);
  EXPECT_DOUBLE_EQ(result.utilization, 23.0 / 60.0);
}

// Prompts of rank 0 at 12-20, of which 12-18 lies in its waiting for links and 18-20 in its idle time; 28-40
// is beyond the end at 30, and 28-30 lies in its own computing. What training does is as before.
TEST(Breakdown, PromptsInTheGaps) {
  Trace trace = by_hand();
  for (const auto& [start, end] : {std::pair(12, 20), std::pair(28, 40)}) {
    trace.intervals.push_back(compute(0, start, end, 0));
    trace.intervals.back().action = {action::ActionKind::kPrompt, 0, -1};
  }
  const Breakdown before = breakdown(by_hand());
  const Breakdown result = breakdown(trace);
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[0].parts, before.rows[0].parts);
  EXPECT_EQ(result.rows[0].prompts_exposed.ns, 6);
  EXPECT_EQ(result.rows[0].prompts_idle.ns, 2);
  EXPECT_EQ(result.rows[1].prompts().ns, 0);
  EXPECT_EQ(result.utilization, before.utilization);
  EXPECT_DOUBLE_EQ(result.utilization_with_prompts, (23.0 + 8.0) / 60.0);
  EXPECT_EQ(before.utilization_with_prompts, before.utilization);
}

// Oregon to Paris: 90 bytes, busy 5-18 of 30 ns.
TEST(Breakdown, WanByHand) {
  const Breakdown result = breakdown(by_hand());
  ASSERT_EQ(result.wan.size(), 2u);
  EXPECT_EQ(result.wan[0].from, "oregon");
  EXPECT_EQ(result.wan[0].to, "paris");
  EXPECT_EQ(result.wan[0].messages, 2);
  EXPECT_EQ(result.wan[0].bytes, 90);
  EXPECT_EQ(result.wan[0].busy.ns, 13);
  EXPECT_DOUBLE_EQ(result.wan[0].busy_fraction, 13.0 / 30.0);
  EXPECT_DOUBLE_EQ(result.wan[0].rate.value, 90 / 30e-9);
  EXPECT_EQ(result.wan[1].bytes, 30);
  EXPECT_EQ(result.wan[0].bytes_per_iteration, Bytes{90});
}

// 90 bytes in each of four iterations. In turns of three that send 90, 90 and 0: 60 of an iteration, and
// a fourth one begins the next turn. A trace without a whole turn counts what it has.
TEST(Breakdown, WanBytesOfAnIteration) {
  const auto repeated = [](int64_t iterations, int64_t cycle) {
    Trace all;
    all.header = by_hand().header;
    all.header.cycle = cycle;
    for (int64_t i = 0; i < iterations; ++i) {
      for (Interval interval : by_hand().intervals) {
        if (cycle > 1 && interval.lane == Lane::kLink && i % cycle == 2) continue;
        interval.iteration = i + 1;
        interval.start.ns += 30 * i;
        interval.end.ns += 30 * i;
        all.intervals.push_back(interval);
      }
    }
    return breakdown(all).wan[0];
  };
  EXPECT_EQ(repeated(4, 1).bytes, 4 * 90);
  EXPECT_EQ(repeated(4, 1).bytes_per_iteration, Bytes{90});
  EXPECT_EQ(repeated(4, 3).bytes, 3 * 90);
  EXPECT_EQ(repeated(4, 3).bytes_per_iteration, Bytes{60});
  EXPECT_EQ(repeated(2, 3).bytes_per_iteration, Bytes{90});
}

// Rank 0 computes 0-10 and sums from 10 to 20; rank 1 computes 0-14 and sums from 14 to 20, so rank
// 0's sum holds 4 of waiting. Rank 0 already computes again from 18. A message is on its way from
// rank 0 to rank 2 at 12-25: it lies over the sum, and the union counts once.
//   rank 0: computes 10 + 4; communicates in 10-25, of which it computes 18-22: exposed 11. Idle 0.
//   rank 1: computes 14, exposed 6, idle 5.
//   rank 2: the message is 13; idle 12.
TEST(Breakdown, ACollectiveIsExposedCommunication) {
  const auto sum = [](int32_t rank, int64_t start) {
    return Interval{.lane = Lane::kCollective,
                    .rank = rank,
                    .action = {action::ActionKind::kReduceGradients, 0, -1},
                    .iteration = 1,
                    .start = {start},
                    .end = {20},
                    .bytes = 1000};
  };
  Trace trace;
  trace.header.ranks = {
      {0, 0, "oregon", "x", 0}, {1, 0, "oregon", "x", 1}, {2, 1, "paris", "x", 0}};
  trace.intervals = {compute(0, 0, 10), compute(1, 0, 14),  sum(0, 10),
                     sum(1, 14),        compute(0, 18, 22), link(0, 2, 12, 25, 90)};
  const Breakdown result = breakdown(trace);
  ASSERT_EQ(result.rows.size(), 3u);
  EXPECT_EQ(result.rows[0].parts, parts(14, 11, 0));
  EXPECT_EQ(result.rows[1].parts, parts(14, 6, 5));
  EXPECT_EQ(result.rows[2].parts, parts(0, 13, 12));
  EXPECT_EQ(result.rows[0].exposed_exchange.ns, 8);  // 10 to 18
  EXPECT_EQ(result.rows[1].exposed_exchange.ns, 6);
  EXPECT_EQ(result.exposed_exchange.ns, 14 / 3);
  // The sum stays inside a datacenter: it is no use of the WAN.
  ASSERT_EQ(result.wan.size(), 1u);
  EXPECT_EQ(result.wan[0].bytes, 90);
}

// Iterations that begin at 0, 8, 20 and 35, each with an update 25 later: 8, 12 and 15 from start to
// start, and 25 of the last one, which nothing ends. The first waits for no gradients, so 12 and 15
// count; two iterations take 33 together.
TEST(IterationTimes, ArePeriodsWhereTheTraceSaysThatTheyOverlap) {
  Trace trace;
  trace.header.overlaps = true;
  for (const auto& [iteration, start] : {std::pair(1, 0), {2, 8}, {3, 20}, {4, 35}}) {
    trace.intervals.push_back(compute(0, start, start + 5, iteration));
    trace.intervals.push_back(compute(1, start + 20, start + 25, iteration));
  }
  EXPECT_EQ(median_iteration(iteration_times(trace)).ns, 13);
  EXPECT_EQ(counting(iteration_times(trace)).size(), 2u);
  trace.intervals.resize(4);
  EXPECT_EQ(median_iteration(iteration_times(trace)).ns, 33 / 2);
  trace.header.overlaps = false;
  EXPECT_EQ(median_iteration(iteration_times(trace)).ns, 25);
}

// Turns of three: of seven iterations between the first and the last two turns are whole, and the later
// one counts, of 10, 10 and 40. The one before has 10, 10 and 10: nothing was put off to it.
TEST(IterationTimes, OfTurnsCountWithoutTheFirst) {
  Trace trace;
  trace.header.overlaps = true;
  trace.header.cycle = 3;
  int64_t start = 0;
  for (int64_t iteration = 1; const int64_t length : {10, 10, 10, 10, 10, 10, 10, 40, 5}) {
    trace.intervals.push_back(compute(0, start, start + 5, iteration++));
    start += length;
  }
  const std::vector<IterationTime> times = counting(iteration_times(trace));
  ASSERT_EQ(times.size(), 3u);
  EXPECT_EQ(times.front().iteration, 6);
  EXPECT_EQ(median_iteration(iteration_times(trace)).ns, (10 + 10 + 40) / 3);
}

TEST(IterationTimes, AreThoseOfLateTurns) {
  EXPECT_EQ(late_turns(7, 1), 7u);
  EXPECT_EQ(late_turns(5, 6), 5u);
  EXPECT_EQ(late_turns(11, 6), 6u);
  EXPECT_EQ(late_turns(12, 6), 6u);
  EXPECT_EQ(late_turns(18, 6), 6u);
  EXPECT_EQ(late_turns(25, 6), 12u);
  EXPECT_EQ(late_turns(0, 6), 0u);
}

TEST(Breakdown, IterationsStandApart) {
  Trace trace;
  trace.intervals = {compute(0, 0, 4, 1), compute(1, 4, 10, 1), compute(0, 10, 14, 2),
                     compute(0, 50, 90, 0)};
  const Breakdown result = breakdown(trace);
  ASSERT_EQ(result.rows.size(), 4u);
  EXPECT_EQ(result.rows[0].parts, parts(4, 0, 6));
  EXPECT_EQ(result.rows[1].parts, parts(6, 0, 4));
  EXPECT_EQ(result.rows[2].parts, parts(4, 0, 0));
  EXPECT_EQ(result.rows[3].parts, parts(0, 0, 4));
}

// As by_hand, with a third and a fourth rank that do what the second one does.
TEST(Breakdown, ARankCountsForAllThatItStandsFor) {
  Trace trace = by_hand();
  trace.header.ranks[1].stands_for = 3;
  trace.intervals.push_back({.lane = Lane::kCollective,
                             .rank = 1,
                             .action = {action::ActionKind::kReduceGradients, 1, -1},
                             .iteration = 1,
                             .start = {26},
                             .end = {30}});
  const Breakdown result = breakdown(trace);
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[1].parts, parts(8, 17, 5));
  EXPECT_EQ(result.sum, parts(15 + 3 * 8, 8 + 3 * 17, 7 + 3 * 5));
  EXPECT_EQ(result.exposed_exchange.ns, 3 * 4 / 4);
  EXPECT_DOUBLE_EQ(result.utilization, 39.0 / 120.0);
}

TEST(Breakdown, OfNothingIsNothing) {
  const Breakdown result = breakdown({});
  EXPECT_TRUE(result.rows.empty());
  EXPECT_EQ(result.utilization, 0);
}

TEST(TimeSet, UnionAndDifference) {
  const auto at = [](int64_t start, int64_t end) {
    return std::pair{SimTime{start}, SimTime{end}};
  };
  const TimeSet some({at(5, 7), at(1, 3), at(2, 4), at(4, 5), at(9, 9), at(10, 20)});
  EXPECT_EQ(some.spans(), (std::vector{at(1, 7), at(10, 20)}));
  EXPECT_EQ(some.measure().ns, 16);
  EXPECT_EQ(some.measure_outside(TimeSet({at(0, 2), at(6, 11), at(12, 13), at(19, 30)})).ns,
            16 - 1 - 1 - 1 - 1 - 1);
  EXPECT_EQ(some.measure_outside(some).ns, 0);
  EXPECT_EQ(some.measure_outside({}).ns, 16);
}

TEST(TimeSet, SpansDoNotRunBackwards) {
  EXPECT_DEATH(TimeSet({{SimTime{7}, SimTime{5}}}), "a span from 7 to 5 ns");
}

}  // namespace
}  // namespace tombolo::trace
