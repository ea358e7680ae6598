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
  apart.groups.clear();
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

// Pipeline 0 stays inside a datacenter, 1 and 2 cross the WAN: over a pair's link a message takes 4,
// over both together 2, one after the other; it is there 3 later. F = 1, B = 2.
//
//   pipeline 0   F 0-1, F 1-2, B 2-4, B 4-6
//   pipeline 1   F 0-1, link 1-3 (there at 6), F 6-7, B 7-9, link 9-11 (14), B 14-16
//   pipeline 2   F 0-1, link 3-5 (8),          F 8-9, B 9-11, link 11-13 (16), B 16-18
PipelineShape two_of_three() {
  return {.stages = 2,
          .microbatches = 1,
          .replicas = 3,
          .cell = 3,
          .shared = {true},
          .groups = {{-1, 1, 1}}};
}
Times times_of_two_of_three() {
  Times times = equal_times(2, {slots(1), slots(1), slots(1), {}});
  times.transfer = {slots(2)};
  times.latency = {slots(3)};
  times.transfer_each = {{slots(0), slots(2), slots(2)}};
  times.latency_each = {{slots(0), slots(3), slots(3)}};
  return times;
}

TEST(SharedLinks, ByHandOfTwoPipelinesInThree) {
  const PipelineShape shape = two_of_three();
  const Times times = times_of_two_of_three();
  for (const layout::ScheduleKind kind :
       {layout::ScheduleKind::kGpipe, layout::ScheduleKind::kAtlas}) {
    const Schedule schedule = *build(kind, shape, times, layout::Discipline::kGreedy);
    EXPECT_THAT(schedule.links, ElementsAre(LinkOrder{0, false, 0, {{1, 0}, {2, 0}}, 1},
                                            LinkOrder{0, true, 0, {{1, 0}, {2, 0}}, 1}));
    EXPECT_THAT(drawn(evaluate(schedule, shape, times)),
                ElementsAre("0:0F0 0-1", "1:0F0 0-1", "2:0F0 0-1", "3:1F0 1-2", "1:0SEND_F0 1-6",
                            "3:1B0 2-4", "2:0SEND_F0 3-8", "0:0B0 4-6", "4:1F0 6-7", "4:1B0 7-9",
                            "5:1F0 8-9", "5:1B0 9-11", "4:1SEND_B0 9-14", "5:1SEND_B0 11-16",
                            "1:0B0 14-16", "2:0B0 16-18"));
    EXPECT_EQ(makespan_of(schedule, shape, times), slots(18));
  }
  // Released in turn: 0 waits for none, 2 until the one transfer of 1 has passed.
  const Schedule released = *build(layout::ScheduleKind::kAtlas, shape, times);
  EXPECT_THAT(released.release, ElementsAre(slots(0), slots(0), slots(2)));
  EXPECT_EQ(makespan_of(released, shape, times), slots(18));
}

// The second cell shares nothing: it does what it would do alone, and the first what it would do.
TEST(SharedLinks, CellsThatCrossUnlikeOneAnother) {
  PipelineShape shape{.stages = 2,
                      .microbatches = 3,
                      .replicas = 4,
                      .cell = 2,
                      .shared = {true},
                      .groups = {{0, 0, -1, -1}}};
  Times times = equal_times(2, {slots(1), slots(1), slots(1), {}});
  times.transfer = {slots(3)};
  times.latency = {slots(4)};
  times.transfer_each = {{slots(3), slots(3), slots(0), slots(0)}};
  times.latency_each = {{slots(4), slots(4), slots(0), slots(0)}};
  const PipelineShape crossing{
      .stages = 2, .microbatches = 3, .replicas = 2, .cell = 2, .shared = {true}};
  const PipelineShape inside{.stages = 2, .microbatches = 3, .replicas = 2, .cell = 2};
  Times there = times, here = times;
  there.transfer_each = there.latency_each = here.transfer_each = here.latency_each = {};
  here.transfer = here.latency = {};
  for (const layout::ScheduleKind kind :
       {layout::ScheduleKind::k1F1B, layout::ScheduleKind::kVaruna, layout::ScheduleKind::kAtlas}) {
    for (const layout::Discipline discipline :
         {layout::Discipline::kGreedy, layout::Discipline::kReleased,
          layout::Discipline::kStrict}) {
      const Schedule all = *build(kind, shape, times, discipline);
      const Schedule first = *build(kind, crossing, there, discipline);
      const Schedule second = *build(kind, inside, here, discipline);
      EXPECT_EQ(all.links, first.links);
      for (size_t position : {0, 1}) {
        for (size_t c : {0, 1}) {
          EXPECT_EQ(all.ranks[position * 4 + c], first.ranks[position * 2 + c]);
          EXPECT_EQ(all.ranks[position * 4 + 2 + c], second.ranks[position * 2 + c]);
        }
      }
      EXPECT_EQ(makespan_of(all, shape, times), makespan_of(first, crossing, there));
    }
  }
}

// Groups that are whole cells change nothing.
TEST(SharedLinks, GroupsOfWholeCells) {
  for (const int32_t C : {1, 2, 3}) {
    for (const int32_t cells : {1, 2}) {
      const PipelineShape shape{.stages = 4,
                                .microbatches = 4,
                                .replicas = C * cells,
                                .cell = C,
                                .shared = {false, true, true}};
      Times times = equal_times(4, {slots(2), slots(1), slots(2), {}});
      times.transfer = {slots(0), slots(1), slots(3)};
      times.latency = {slots(0), slots(4), slots(2)};
      PipelineShape named = shape;
      Times of_each = times;
      std::vector<int32_t> first;
      for (int32_t r = 0; r < C * cells; ++r) first.push_back(r - r % C);
      named.groups = {{}, first, first};
      for (size_t b = 0; b < 3; ++b) {
        of_each.transfer_each.emplace_back(first.size(), times.transfer[b]);
        of_each.latency_each.emplace_back(first.size(), times.latency[b]);
      }
      for (const layout::ScheduleTraits& row : layout::kSchedules) {
        if (row.mapping != layout::StageMapping::kLine) continue;
        for (const auto& discipline : enum_names(layout::Discipline{})) {
          const Schedule one = *build(row.kind, shape, times, discipline.value);
          Schedule other = *build(row.kind, named, of_each, discipline.value);
          // Releases of nothing are left out where cells are put together.
          if (other.release.empty()) other.release.resize(one.release.size());
          EXPECT_EQ(one, other) << row.name << ", " << discipline.name << ", cells of " << C;
          EXPECT_EQ(makespan_of(one, shape, times), makespan_of(other, named, of_each));
        }
      }
    }
  }
}

// Pipelines that share a link as fast as all of theirs together, one after the other, released so
// far apart that none waits for another: T = [P f + n w' + (M-1) max(f,w')] + [P b + n w' + (M-1)
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

TEST(SharedLinks, EveryPartHasItsOrder) {
  const PipelineShape shape = two_of_three();
  const Schedule sound = *build(layout::ScheduleKind::kGpipe, shape, times_of_two_of_three());
  const auto said = [&](const std::function<void(LinkOrder&)>& damage) {
    Schedule schedule = sound;
    damage(schedule.links[0]);
    const Status status = validate(schedule, shape);
    return status ? "sound" : status.error().message;
  };
  EXPECT_EQ(said([](LinkOrder&) {}), "sound");
  EXPECT_THAT(
      said([](LinkOrder& link) { link.first = -1; }),
      HasSubstr("it orders the link of cell 0 from stage 0 to stage 1, which is not shared"));
  EXPECT_THAT(said([](LinkOrder& link) { link.first = 0; }),
              HasSubstr("it orders the link of pipeline 0 and others of cell 0 from stage 0 to "
                        "stage 1, which is not shared"));
  EXPECT_THAT(
      said([](LinkOrder& link) {
        link.transfers[0] = {0, 0};
      }),
      HasSubstr("the link of pipeline 1 and others of cell 0 from stage 0 to stage 1 carries "
                "microbatch 0 of pipeline 0, which does not exist there"));
  EXPECT_THAT(said([](LinkOrder& link) { link.transfers.pop_back(); }),
              HasSubstr("carries 1 transfers of 2"));
  // And from a file.
  const auto given = to_given(sound);
  EXPECT_EQ(*from_given(given, shape), sound);
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
