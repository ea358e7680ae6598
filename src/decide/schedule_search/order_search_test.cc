// What becomes of an order that waits for no reason: both ways to improve it, by hand and at
// random.
#include "decide/schedule_search/order_search.h"

#include <gtest/gtest.h>

#include "decide/schedule_search/justify.h"
#include "spec/schedule/policy.h"

namespace tombolo::schedule_search {
namespace {

// 1F1B of two stages and three microbatches, everything takes 1, a message is on its way for 4.
// Stage 0 does F2 only after B0, which is back at 11: F2 [12,13], [17,18] on stage 1, B2 [18,19],
// back at 23: 24 in all. With F2 at 2, stage 1 works from 5 to 11 without a gap, and B2 is back at
// 15: 16 in all, and no less, since stage 1 has 6 to do and a way of 5 before and behind it.
struct Far {
  schedule::PipelineShape shape{.stages = 2, .microbatches = 3};
  schedule::Times times = schedule::equal_times(2, {{1}, {1}, {0}, {0}});
  schedule::Memory unlimited;
  schedule::CellOrders orders;

  Far() {
    times.transfer = {{0}};
    times.latency = {{4}};
    orders.ranks = schedule::one_forward_one_backward(shape, times);
  }
  int64_t takes(const schedule::CellOrders& any) const {
    return schedule::makespan_of(schedule::complete("any", shape, any), shape, times).ns;
  }
};

TEST(OrderSearch, BringsForwardWhatTheLongestPathWaitsFor) {
  const Far far;
  ASSERT_EQ(far.takes(far.orders), 24);
  detail::OrderSearch search(far.shape, far.times, far.unlimited, far.orders);
  EXPECT_EQ(search.makespan().ns, 24);
  search.improve({});
  EXPECT_EQ(search.makespan().ns, 16);
  EXPECT_EQ(far.takes(search.orders()), 16);
}

TEST(Justify, BringsForwardWhatFitsIntoAGap) {
  const Far far;
  detail::Justify justify(far.shape, far.times, far.unlimited, far.orders);
  justify.improve({});
  EXPECT_EQ(justify.makespan().ns, 16);
  EXPECT_EQ(far.takes(justify.orders()), 16);
}

// Where stage 0 has memory for two, F2 must wait for B0: 24 is all there is.
TEST(OrderSearch, KeepsToTheMemory) {
  const Far far;
  const schedule::Memory memory{.in_flight = {2, 3}};
  detail::OrderSearch search(far.shape, far.times, memory, far.orders);
  search.improve({});
  EXPECT_EQ(search.makespan().ns, 24);
  detail::Justify justify(far.shape, far.times, memory, far.orders);
  justify.improve({});
  EXPECT_EQ(justify.makespan().ns, 24);
}

// Cells that share a WAN, backwards split: results are sound and take as long as they say.
TEST(OrderSearch, MakesSoundSchedules) {
  Random random = Random(3).stream("order_search_test");
  for (int i = 0; i < 50; ++i) {
    SCOPED_TRACE(i);
    schedule::PipelineShape shape{.stages = 4,
                                  .microbatches = 3 + static_cast<int32_t>(random.below(4)),
                                  .recompute = {i % 3 == 0, false, i % 3 == 0, false},
                                  .replicas = 2,
                                  .cell = 2,
                                  .shared = {false, true, false}};
    schedule::Times times;
    const auto some = [&] { return SimDuration{1 + static_cast<int64_t>(random.below(9))}; };
    for (int s = 0; s < 4; ++s) times.stages.push_back({some(), some(), some(), some()});
    times.transfer = {some(), some(), {0}};
    times.latency = {{0}, some(), some()};
    schedule::Rules rules{.split_backward = i % 2 == 0, .in_flight = {4, 3, 3, 2}};
    const schedule::Memory memory{rules.in_flight};
    const schedule::CellPlay play = schedule::play_cell(shape, times, rules);
    ASSERT_TRUE(play.finished);
    const auto check = [&](auto search) {
      search.improve({});
      EXPECT_LE(search.makespan(), play.makespan);
      const schedule::Schedule schedule = schedule::complete("improved", shape, search.orders());
      const Status sound = schedule::validate(schedule, shape);
      EXPECT_TRUE(sound) << sound.error().text();
      EXPECT_LE(schedule::makespan_of(schedule, shape, times), search.makespan());
      const std::vector<int64_t> peaks = schedule::peak_in_flight(schedule);
      for (size_t rank = 0; rank < peaks.size(); ++rank) {
        EXPECT_LE(peaks[rank], memory.in_flight[rank / 2]);
      }
    };
    check(detail::OrderSearch(shape, times, memory, play.orders));
    check(detail::Justify(shape, times, memory, play.orders));
  }
}

}  // namespace
}  // namespace tombolo::schedule_search
