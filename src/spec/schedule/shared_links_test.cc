// Pipelines of a DP-cell that share a link in time: by hand, by the closed form, and every way to
// break the order of a link.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "spec/schedule/schedule.h"
#include "support/test_links.h"
#include "support/test_times.h"

namespace tombolo::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// GPipe of `replicas` pipelines without shared links; the caller shares them.
Schedule gpipe_of(const PipelineShape& shape) {
  PipelineShape apart = shape;
  apart.shared.clear();
  return *build(layout::ScheduleKind::kGpipe, apart);
}

std::vector<std::string> drawn(const trace::Trace& trace) {
  std::vector<std::string> out;
  for (const trace::Interval& interval : trace.intervals) {
    out.push_back(fmt::format("{}:{} {}-{}", interval.rank, to_text(interval.action),
                              interval.start.ns / 1'000'000, interval.end.ns / 1'000'000));
  }
  return out;
}

// Two pipelines of two stages, two microbatches each, GPipe; F = 1, B = 2, the cell's link is
// taken for 2 and is 3 away; it carries the pipelines in turn. Ranks 0 and 1 are stage 0 of
// pipelines 0 and 1, ranks 2 and 3 stage 1. Pipeline 1 is released at 1.
//
//   rank 0   F0 0-1, F1 1-2           rank 1   F0 1-2, F1 2-3
//   link     0.0 1-3 (there at 6), 1.0 3-5 (8), 0.1 5-7 (10), 1.1 7-9 (12)
//   rank 2   F0 6-7, F1 10-11, B0 11-13, B1 13-15
//   rank 3   F0 8-9, F1 12-13, B0 13-15, B1 15-17
//   back     0.0 13-15 (18), 1.0 15-17 (20), 0.1 17-19 (22), 1.1 19-21 (24)
//   rank 0   B0 18-20, B1 22-24       rank 1   B0 20-22, B1 24-26
TEST(SharedLinks, ByHand) {
  const PipelineShape shape{
      .stages = 2, .microbatches = 2, .replicas = 2, .cell = 2, .shared = {true}};
  Times times = equal_times(2, {slots(1), slots(1), slots(1), {}});
  times.transfer = {slots(2)};
  times.latency = {slots(3)};
  Schedule schedule = gpipe_of(shape);
  take_turns(shape, schedule);
  schedule.release = {slots(0), slots(1)};
  const trace::Trace trace = evaluate(schedule, shape, times);
  EXPECT_THAT(
      drawn(trace),
      ElementsAre("0:0F0 0-1", "0:0F1 1-2", "1:0F0 1-2", "0:0SEND_F0 1-6", "1:0F1 2-3",
                  "1:0SEND_F0 3-8", "0:0SEND_F1 5-10", "2:1F0 6-7", "1:0SEND_F1 7-12", "3:1F0 8-9",
                  "2:1F1 10-11", "2:1B0 11-13", "3:1F1 12-13", "2:1B1 13-15", "3:1B0 13-15",
                  "2:1SEND_B0 13-18", "3:1B1 15-17", "3:1SEND_B0 15-20", "2:1SEND_B1 17-22",
                  "0:0B0 18-20", "3:1SEND_B1 19-24", "1:0B0 20-22", "0:0B1 22-24", "1:0B1 24-26"));
  EXPECT_EQ(makespan_of(schedule, shape, times), slots(26));
  EXPECT_EQ(makespan_of(schedule, shape, times), bubble_of(trace).makespan);
}

// The link waits for the next one rather than let another pass: pipeline 1, released late, goes
// first, so that pipeline 0 waits for it.
TEST(SharedLinks, WaitForTheNextOfTheirOrder) {
  const PipelineShape shape{
      .stages = 2, .microbatches = 1, .replicas = 2, .cell = 2, .shared = {true}};
  Times times = equal_times(2, {slots(1), slots(1), slots(1), {}});
  times.transfer = {slots(2)};
  Schedule schedule = gpipe_of(shape);
  order_links_by([](int32_t replica, size_t) { return 1 - replica; }, shape, schedule);
  schedule.release = {slots(0), slots(10)};
  // Pipeline 1: F 10-11, link 11-13, F 13-14, B 14-16, link 16-18, B 18-20; pipeline 0: F 0-1,
  // link 13-15, F 15-16, B 16-18, link 18-20, B 20-22.
  EXPECT_EQ(makespan_of(schedule, shape, times), slots(22));
}

// Pipelines that share a link as fast as all of theirs together, one after the other, released so
// far apart that nobody waits for another: T = [P f + n w' + (M-1) max(f,w')] + [P b + n w' + (M-1)
// max(b,w')] + (C-1) M max(f,w'), w' = w / C. Backwards may last no longer than what lies between
// the pipelines, or they meet on their way back.
TEST(SharedLinks, GpipeEqualsItsClosedForm) {
  int cases = 0;
  for (const int64_t C : {1, 2, 3}) {
    for (const int64_t M : {1, 2, 5}) {
      for (const int64_t f : {2, 3}) {
        for (const int64_t b : {1, 2}) {
          for (const int64_t shared_w : {1, 2, 3}) {
            for (const std::vector<bool>& wan :
                 {std::vector<bool>{true}, {false, true, false}, {true, false, true}}) {
              const auto P = static_cast<int64_t>(wan.size()) + 1;
              const int64_t n = std::count(wan.begin(), wan.end(), true);
              PipelineShape shape{.stages = static_cast<int32_t>(P),
                                  .microbatches = static_cast<int32_t>(M),
                                  .replicas = static_cast<int32_t>(C),
                                  .cell = static_cast<int32_t>(C),
                                  .shared = wan};
              Times times = equal_times(shape.stages, {slots(f), slots(b), {}, {}});
              for (const bool over : wan) times.transfer.push_back(slots(over ? shared_w : 0));
              Schedule schedule = gpipe_of(shape);
              one_after_the_other(shape, schedule);
              const int64_t each = M * std::max(f, shared_w);
              for (int64_t c = 0; c < C; ++c) schedule.release.push_back(slots(c * each));
              const auto half = [&](int64_t x) {
                return P * x + n * shared_w + (M - 1) * std::max(x, shared_w);
              };
              EXPECT_EQ(makespan_of(schedule, shape, times),
                        slots(half(f) + half(b) + (C - 1) * each))
                  << "C=" << C << " M=" << M << " P=" << P << " n=" << n << " f=" << f << " b=" << b
                  << " w/C=" << shared_w;
              ++cases;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(cases, 3 * 3 * 2 * 2 * 3 * 3);
}

// --- what is wrong with an order
// --------------------------------------------------------------------

const PipelineShape kCells{
    .stages = 3, .microbatches = 2, .replicas = 4, .cell = 2, .shared = {true, false}};

std::string complaint(const std::function<void(Schedule&)>& damage) {
  Schedule schedule = gpipe_of(kCells);
  take_turns(kCells, schedule);
  damage(schedule);
  const Status status = validate(schedule, kCells);
  return status ? "sound" : status.error().message;
}

TEST(SharedLinks, EveryLinkHasItsOrder) {
  EXPECT_EQ(complaint([](Schedule&) {}), "sound");
  // One boundary, two directions, two cells.
  EXPECT_THAT(complaint([](Schedule& s) { s.links.pop_back(); }),
              HasSubstr("it orders 3 shared links of 4"));
  EXPECT_THAT(complaint([](Schedule& s) { s.links.clear(); }),
              HasSubstr("it orders 0 shared links of 4"));
  EXPECT_THAT(
      complaint([](Schedule& s) { s.links[1].boundary = 1; }),
      HasSubstr("it orders the link of cell 1 from stage 1 to stage 2, which is not shared"));
  EXPECT_THAT(complaint([](Schedule& s) { std::swap(s.links[0], s.links[1]); }),
              HasSubstr("not in its place"));
}

TEST(SharedLinks, EveryTransferOnce) {
  EXPECT_THAT(complaint([](Schedule& s) { s.links[0].transfers.pop_back(); }),
              HasSubstr("the link of cell 0 from stage 0 to stage 1 carries 3 transfers of 4"));
  EXPECT_THAT(complaint([](Schedule& s) {
                s.links[2].transfers[1] = {0, 0};
              }),
              HasSubstr("from stage 1 to stage 0 carries microbatch 0 of pipeline 0 twice"));
  for (const Transfer& strange :
       std::vector<Transfer>{{2, 0}, {-1, 0}, {0, 2}, {0, -1}, {2'000'000'000, 2'000'000'000}}) {
    EXPECT_THAT(complaint([&](Schedule& s) { s.links[0].transfers[0] = strange; }),
                HasSubstr("which does not exist there"));
  }
}

TEST(SharedLinks, ReleasesOfAllPipelines) {
  EXPECT_THAT(complaint([](Schedule& s) { s.release = {slots(1)}; }),
              HasSubstr("it releases 1 pipelines of 4"));
  EXPECT_THAT(complaint([](Schedule& s) {
                s.release = {slots(0), slots(1), {-3}, {}};
              }),
              HasSubstr("pipeline 2 is released 3 ns before all"));
}

// The first rank of 1F1B warms up with two forwards, so its activation 2 follows its gradient 0.
// Activations of pipeline 0 go first on the way there, gradients of pipeline 1 first on the way
// back: activation 2 of pipeline 0 waits for its gradient 0, which waits for all of pipeline 1's,
// which wait for its activations, which wait for activation 2 of pipeline 0.
TEST(SharedLinks, OrdersThatWaitForOneAnother) {
  const PipelineShape shape{
      .stages = 2, .microbatches = 3, .replicas = 2, .cell = 2, .shared = {true}};
  PipelineShape apart = shape;
  apart.shared.clear();
  Schedule schedule = *build(layout::ScheduleKind::k1F1B, apart);
  one_after_the_other(shape, schedule);
  EXPECT_TRUE(validate(schedule, shape));
  std::reverse(schedule.links[1].transfers.begin(), schedule.links[1].transfers.end());
  const Status status = validate(schedule, shape);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message,
              HasSubstr("forever: the ranks wait for one another or for shared links"));
}

}  // namespace
}  // namespace tombolo::schedule
