#include "spec/schedule/ascii.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::schedule {
namespace {

using action::ActionKind;

trace::Interval interval(int32_t rank, ActionKind kind, int32_t microbatch, int64_t start_ms,
                         int64_t end_ms, int64_t iteration = 1) {
  return {.lane = trace::Lane::kCompute,
          .rank = rank,
          .action = {kind, rank, microbatch},
          .iteration = iteration,
          .start = {start_ms * 1'000'000},
          .end = {end_ms * 1'000'000}};
}

trace::Trace toy() {
  trace::Trace trace;
  trace.header.ranks = {{0, 0, "oregon", "a100"}, {1, 1, "paris", "a100"}};
  trace.intervals = {interval(0, ActionKind::kForward, 0, 0, 1),
                     interval(0, ActionKind::kRecompute, 0, 6, 7),
                     interval(0, ActionKind::kBackward, 0, 7, 9),
                     interval(0, ActionKind::kUpdate, -1, 9, 10),
                     interval(1, ActionKind::kForward, 0, 3, 4),
                     interval(1, ActionKind::kBackward, 0, 4, 6),
                     interval(1, ActionKind::kForward, 12, 6, 7),
                     interval(0, ActionKind::kForward, 5, 100, 101, 2)};
  return trace;
}

TEST(Ascii, DrawsOneColumnPerStepOfTheGrid) {
  EXPECT_EQ(draw_ascii(toy()),
            "oregon 0 |0.....Aaa*|\n"
            " paris 1 |...0aa2...|\n"
            "a column is 1 ms; 0-9 forward, a-j backward, A-J recompute of microbatch 0-9 (mod "
            "10), * update, . idle\n");
}

// Two stages, two replicas: ranks 0 and 1 are stage 0, ranks 2 and 3 stage 1. Rank 1 comes to the
// sum a millisecond after rank 0, which waits for it.
TEST(Ascii, DrawsEachPipelineByItself) {
  trace::Trace trace;
  trace.header.ranks = {{0, 0, "oregon", "a100", 0},
                        {1, 0, "oregon", "a100", 1},
                        {2, 1, "paris", "a100", 0},
                        {3, 1, "paris", "a100", 1}};
  const auto sum = [](int32_t rank, int64_t start_ms, int64_t end_ms) {
    trace::Interval out = interval(rank, ActionKind::kReduceGradients, -1, start_ms, end_ms);
    out.lane = trace::Lane::kCollective;
    return out;
  };
  trace.intervals = {interval(0, ActionKind::kForward, 0, 0, 1),
                     interval(0, ActionKind::kBackward, 0, 4, 6),
                     sum(0, 6, 9),
                     interval(0, ActionKind::kUpdate, -1, 9, 10),
                     interval(1, ActionKind::kForward, 0, 0, 2),
                     interval(1, ActionKind::kBackward, 0, 5, 7),
                     sum(1, 7, 9),
                     interval(1, ActionKind::kUpdate, -1, 9, 10),
                     interval(2, ActionKind::kForward, 0, 1, 2),
                     interval(2, ActionKind::kBackward, 0, 2, 4),
                     sum(2, 4, 6),
                     interval(3, ActionKind::kForward, 0, 2, 3),
                     interval(3, ActionKind::kBackward, 0, 3, 5),
                     sum(3, 5, 6)};
  EXPECT_EQ(draw_ascii(trace),
            "pipeline 0\n"
            "oregon 0, stage 0 |0...aa+++*|\n"
            " paris 2, stage 1 |.0aa++....|\n"
            "pipeline 1\n"
            "oregon 1, stage 0 |00...aa++*|\n"
            " paris 3, stage 1 |..0aa+....|\n"
            "a column is 1 ms; 0-9 forward, a-j backward, A-J recompute of microbatch 0-9 (mod "
            "10), + gradient all-reduce, * update, . idle\n");
}

// Two pipelines share the link from oregon to paris, one transfer at a time: 1-3 and 3-5, there 1
// ms later.
TEST(Ascii, DrawsTheLinksThatACellShares) {
  trace::Trace trace;
  trace.header.ranks = {{0, 0, "oregon", "a100", 0},
                        {1, 0, "oregon", "a100", 1},
                        {2, 1, "paris", "a100", 0},
                        {3, 1, "paris", "a100", 1}};
  const auto forward = [](int32_t rank, int32_t stage, int64_t start_ms) {
    trace::Interval out = interval(rank, ActionKind::kForward, 7, start_ms, start_ms + 1);
    out.action.stage = stage;
    return out;
  };
  const auto transfer = [](int32_t rank, int64_t start_ms, int64_t end_ms) {
    trace::Interval out = interval(rank, ActionKind::kSendActivation, 7, start_ms, end_ms);
    out.lane = trace::Lane::kLink;
    out.peer = rank + 2;
    out.action.stage = 0;
    return out;
  };
  trace.intervals = {forward(0, 0, 0), forward(1, 0, 0),  forward(2, 1, 4),
                     forward(3, 1, 6), transfer(0, 1, 4), transfer(1, 3, 6)};
  const PipelineShape shape{
      .stages = 2, .microbatches = 8, .replicas = 2, .cell = 2, .shared = {true}};
  Times times = equal_times(2, {});
  times.latency = {{1'000'000}};
  EXPECT_THAT(draw_ascii(trace, {.shape = &shape, .times = &times}),
              ::testing::StartsWith("pipeline 0\n"
                                    "oregon 0, stage 0 |7......|\n"
                                    " paris 2, stage 1 |....7..|\n"
                                    "pipeline 1\n"
                                    "oregon 1, stage 0 |7......|\n"
                                    " paris 3, stage 1 |......7|\n"
                                    "links shared in time\n"
                                    "  oregon -> paris |.7777..|\n"
                                    "      of pipeline |.0011..|\n"));
}

// Pipelines 1 and 2 of three cross together; 0 stays inside, and is no row.
TEST(Ascii, NamesThePipelinesThatShareWhereOthersDoNot) {
  const PipelineShape shape{.stages = 2,
                            .microbatches = 1,
                            .replicas = 3,
                            .cell = 3,
                            .shared = {true},
                            .groups = {{-1, 1, 1}}};
  constexpr SimDuration kSlot{1'000'000};
  Times times = equal_times(2, {kSlot, kSlot, kSlot, {}});
  times.transfer = times.latency = {kSlot * 2};
  times.transfer_each = times.latency_each = {{{}, kSlot * 2, kSlot * 2}};
  const Schedule schedule =
      *build(layout::ScheduleKind::kGpipe, shape, times, layout::Discipline::kGreedy);
  EXPECT_THAT(draw_ascii(evaluate(schedule, shape, times), {.shape = &shape, .times = &times}),
              ::testing::HasSubstr("links shared in time\n"
                                   "1 -> 4, pipelines 1 2 |.0000...........|\n"
                                   "          of pipeline |.1122...........|\n"
                                   "4 -> 1, pipelines 1 2 |........aaaa....|\n"
                                   "          of pipeline |........1122....|\n"));
}

// 10 ms on 10 columns stay exact; on a grid of 1 us they become slots of 1 ms.
TEST(Ascii, ShowsWhatTakesMostOfASlotWhereTheGridIsTooFine) {
  trace::Trace trace = toy();
  trace.intervals[4].start.ns -= 1000;
  const std::string drawn = draw_ascii(trace, {.width = 10});
  EXPECT_THAT(drawn, ::testing::HasSubstr("1 |..00aa2...|"));
  EXPECT_THAT(drawn, ::testing::HasSubstr("shows what takes most of it"));
}

TEST(Ascii, DrawsTheIterationItIsAskedFor) {
  EXPECT_THAT(draw_ascii(toy(), {.iteration = 2}), ::testing::HasSubstr("oregon 0 |5|"));
  EXPECT_EQ(draw_ascii(toy(), {.iteration = 3}), "");
}

}  // namespace
}  // namespace tombolo::schedule
