// Schedules whose forwards and backwards are co-executed in pairs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "spec/schedule/ascii.h"
#include "spec/schedule/schedule.h"
#include "spec/schedule/schedule_csv.h"
#include "support/messages_sent.h"

namespace tombolo::schedule {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

PipelineShape folded(const std::string& name, int32_t positions, int32_t microbatches) {
  PipelineShape shape = shape_for(*layout::find_schedule(name), positions, microbatches);
  shape.pairs = true;
  return shape;
}

// Nanoseconds of a chunk: forward, the halves of its backward, and a pair, whose sides end with it
// but for the forward where it says so.
struct Chunk {
  int64_t f, i, w, pair;
  int64_t forward_end = -1;
};
Times times_of(const PipelineShape& shape, const Chunk& chunk) {
  Times times = equal_times(shape.stages, {{chunk.f}, {chunk.i}, {chunk.w}, {}});
  for (int32_t s = 0; s < shape.stages; ++s) {
    const int64_t forward_end = chunk.forward_end < 0 ? chunk.pair : chunk.forward_end;
    times.pairs.push_back({s, shape.stages - 1 - s, {forward_end}, {chunk.pair}});
  }
  return times;
}

int64_t makespan(const std::string& name, int32_t positions, int32_t microbatches,
                 const Chunk& chunk) {
  const PipelineShape shape = folded(name, positions, microbatches);
  const Times times = times_of(shape, chunk);
  return makespan_of(*build(*layout::find_schedule(name), shape, times), shape, times).ns;
}

// Every order of the three parts of a chunk, and pairs from one that hides all of its shorter side to
// one that hides nothing.
std::vector<Chunk> chunks() {
  std::vector<Chunk> out;
  for (const auto& [f, i, w] :
       {std::tuple{6, 6, 6}, {6, 6, 3}, {4, 6, 6}, {5, 7, 3}, {8, 4, 4}, {4, 4, 8}, {6, 4, 6}}) {
    for (int64_t pair = std::max(f, i + w); pair <= f + i + w; pair += 2) {
      out.push_back({f, i, w, pair});
    }
  }
  return out;
}

// Published: (P-1)(F&B + B - 3 W), which holds where no part is longer than an input's half.
TEST(DualPipeVWithPairs, TakesAsLongAsItsLaw) {
  for (const Chunk& c : chunks()) {
    const int64_t b = c.i + c.w;
    for (int32_t p = 1; p <= 5; ++p) {
      for (int32_t m = 2 * p; m <= 4 * p; ++m) {
        const int64_t work = 2 * m * (c.f + b) - 2 * (m - p) * (c.f + b - c.pair);
        const int64_t longer = std::max<int64_t>(0, c.f - c.i) + std::max<int64_t>(0, c.w - c.i);
        const int64_t bubble = (p - 1) * (c.pair + b - 3 * c.w + longer);
        ASSERT_EQ(makespan("dualpipev", p, m, c), work + bubble)
            << p << " positions, " << m << " microbatches, " << c.f << " " << c.i << " " << c.w
            << " " << c.pair;
      }
    }
  }
}

// The ratio of the revised paper: (P-1) / (M-1 + P s) of the makespan is idle, where a pair takes
// (f + b) / s.
TEST(WShapeWithPairs, TakesAsLongAsItsLaw) {
  for (const Chunk& c : chunks()) {
    const int64_t apart = c.f + c.i + c.w;
    for (int32_t p = 1; p <= 5; ++p) {
      for (int32_t m = 2 * p; m <= 4 * p; ++m) {
        const int64_t made = makespan("w", p, m, c);
        ASSERT_EQ(made, 2 * (m - 1) * c.pair + 2 * p * apart);
        const int64_t work = 2 * p * apart + 2 * (m - p) * c.pair;
        ASSERT_EQ(made - work, 2 * (p - 1) * c.pair);  // (M-1 + P s) pairs on each way in all
      }
    }
  }
}

// overlap.md's table is of a greedy player, f = 1 and b = 2 of a stage, a pair of chunks
// (f + b) / (2 s): never shorter than these orders, and no more than 3.7 % longer. In 1/780 of a
// unit all is whole.
TEST(Pairs, AreWithinThePublishedTable) {
  struct Row {
    int32_t p, m;
    int64_t percent;  // 100 s
    double w, dualpipev;
  };
  for (const Row& row : {Row{4, 12, 120, 39.8, 34.5},
                         {4, 16, 130, 47.0, 42.0},
                         {4, 64, 130, 157.7, 152.8},
                         {8, 32, 130, 99.0, 84.3},
                         {8, 128, 130, 320.6, 305.8},
                         {8, 128, 110, 373.9, 357.5},
                         {16, 64, 130, 198.6, 168.9}}) {
    constexpr int64_t kUnit = 1'716'000;  // divisible by 2 x 11, 12 and 13
    const Chunk chunk{kUnit / 2, kUnit / 2, kUnit / 2, kUnit * 150 / row.percent};
    const double w = static_cast<double>(makespan("w", row.p, row.m, chunk)) / kUnit;
    const double dualpipev =
        static_cast<double>(makespan("dualpipev", row.p, row.m, chunk)) / kUnit;
    EXPECT_LE(w, row.w + 0.05);
    EXPECT_GE(w, row.w * 0.963);
    EXPECT_LE(dualpipev, row.dualpipev + 0.05);
    EXPECT_GE(dualpipev, row.dualpipev * 0.99);
  }
}

// As without pairs: P stages' worth and half a one more, twice the messages of 1F1B.
TEST(Pairs, TakeTheMemoryAndTrafficOfTheFold) {
  for (const char* name : {"w", "dualpipev"}) {
    const Schedule schedule = *build(*layout::find_schedule(name), folded(name, 4, 12));
    EXPECT_THAT(peak_in_flight(schedule), ElementsAre(9, 9, 9, 9)) << name;
    EXPECT_THAT(messages_sent(schedule), ElementsAre(24, 48, 48, 24)) << name;
  }
}

TEST(Pairs, AreMadeOfTheForwardBesideTheBackwardOfTheOtherChunk) {
  const Schedule w = *build(layout::ScheduleKind::kW, folded("w", 2, 4));
  EXPECT_EQ(plan::pairs_text(w.pairs[0]), "0F2;3B0 0F3;3B1 3F2;0B0 3F3;0B1");
  EXPECT_EQ(plan::pairs_text(w.pairs[1]), "1F2;2B0 2F2;1B0 1F3;2B1 2F3;1B1");
  const Schedule dualpipev = *build(layout::ScheduleKind::kDualPipeV, folded("dualpipev", 2, 4));
  EXPECT_EQ(plan::pairs_text(dualpipev.pairs[0]), "0F3;3B1 3F2;0B0 3F3;0B1");
  // Without, both run in the same order and nothing else changes.
  for (const char* name : {"w", "dualpipev"}) {
    EXPECT_THAT(
        build(*layout::find_schedule(name), shape_for(*layout::find_schedule(name), 2, 4))->pairs,
        ::testing::IsEmpty());
  }
}

// When the links between the two positions carry what the first pair of rank 0 makes, 0F2 with 3B0.
std::pair<int64_t, int64_t> sends_after_pair(int64_t forward_end, int64_t backward_end) {
  const PipelineShape shape = folded("w", 2, 4);
  Times times = times_of(shape, {2, 1, 2, 5});
  times.transfer = {{1}, {1}, {1}};
  times.pairs[0].forward_end = {forward_end};
  times.pairs[0].backward_end = {backward_end};
  int64_t begin = 0, forward = 0, backward = 0;
  for (const trace::Interval& i :
       evaluate(*build(layout::ScheduleKind::kW, shape), shape, times).intervals) {
    const std::string text = action::to_text(i.action);
    if (text == "0F2") begin = i.start.ns;
    if (text == "0SEND_F2") forward = i.start.ns;
    if (text == "3SEND_B0") backward = i.start.ns;
  }
  return {forward - begin, backward - begin};
}

// Both go to rank 1, one after the other where they are ready at once; each takes 1 ns.
TEST(Pairs, HandOverEachResultWhenItsSideEnds) {
  EXPECT_EQ(sends_after_pair(2, 5), std::pair(int64_t{2}, int64_t{5}));
  EXPECT_EQ(sends_after_pair(5, 3), std::pair(int64_t{5}, int64_t{3}));
  EXPECT_EQ(sends_after_pair(4, 4), std::pair(int64_t{4}, int64_t{5}));
}

// f = 2, b = 3, and pairs of 4 whose forward ends after 3.
TEST(Pairs, AreDrawnInTwoRows) {
  const PipelineShape shape = folded("w", 1, 3);
  const Times times = times_of(shape, {2, 1, 2, 4, 3});
  EXPECT_THAT(draw_ascii(evaluate(*build(layout::ScheduleKind::kW, shape, times), shape, times)),
              StartsWith("      0 |0000111.111.222.222.cccccc|\n"
                         "with it |....aaaaaaaabbbbbbbb......|\n"));
}

// A stage that recomputes does so before the pair, once the gradient is there.
TEST(Pairs, RecomputeBeforeTheyBegin) {
  PipelineShape shape = folded("w", 2, 4);
  shape.recompute = {true, true, true, false};
  const Schedule schedule = *build(layout::ScheduleKind::kW, shape);
  EXPECT_THAT(plan::order_text(schedule.ranks[1]),
              HasSubstr("2RECV_B0 2R0 1RECV_F2 1F2 2B0 1R0 2F2 1B0 2SEND_F2 1SEND_B0"));
}

TEST(Pairs, PassThroughAPlanAndThroughCsv) {
  for (const char* name : {"w", "dualpipev"}) {
    for (const bool recomputes : {false, true}) {
      PipelineShape shape = folded(name, 3, 7);
      shape.replicas = 2;
      if (recomputes) shape.recompute = {true, true, true, true, true, false};
      const Schedule schedule = *build(*layout::find_schedule(name), shape);
      EXPECT_EQ(*from_given(to_given(schedule), shape), schedule) << name;
      const Schedule read = *parse_csv(to_csv(schedule, CsvContent::kEverything), name);
      EXPECT_EQ(read.ranks, schedule.ranks);
      EXPECT_EQ(read.pairs, schedule.pairs);
    }
  }
  const std::string text =
      to_csv(*build(layout::ScheduleKind::kW, folded("w", 1, 3)), CsvContent::kComputations);
  EXPECT_THAT(text, StartsWith("0F0,1F0,(0F1;1B0)OVERLAP_F_B,(1F1;0B0)OVERLAP_F_B,(0F2;1B1)"));
}

// A computation that stands alone before it stands in a pair, which no sound schedule has.
TEST(Pairs, PassThroughCsvWhateverStandsBeforeThem) {
  const Schedule read = *parse_csv("0F1,(0F1;0B0)OVERLAP_F_B\n", "a.csv");
  EXPECT_EQ(*parse_csv(to_csv(read, CsvContent::kEverything), "a.csv"), read);
}

// So few microbatches that none meets another.
TEST(Pairs, AreNoneWhereNothingMeets) {
  EXPECT_EQ(build(layout::ScheduleKind::kW, folded("w", 3, 2))->pairs,
            build(layout::ScheduleKind::kW, shape_for(layout::ScheduleKind::kW, 3, 2))->pairs);
}

TEST(Pairs, AreNeighboursInTheOrderOfTheirRank) {
  const PipelineShape shape = folded("w", 2, 4);
  const Schedule sound = *build(layout::ScheduleKind::kW, shape);
  Schedule apart = sound;
  std::swap(apart.pairs[0][0].backward, apart.pairs[0][1].backward);
  EXPECT_THAT(validate(apart, shape).error().text(), HasSubstr("it pairs 0F2 with 3B1"));
  Schedule disordered = sound;
  std::swap(disordered.pairs[0][0], disordered.pairs[0][1]);
  EXPECT_THAT(validate(disordered, shape).error().text(), HasSubstr("in the order of the rank"));
  Schedule few = sound;
  few.pairs.pop_back();
  EXPECT_THAT(validate(few, shape).error().text(), HasSubstr("pairs of 1 ranks of 2"));
  Schedule of_halves = sound;
  of_halves.pairs[0][0].backward.kind = action::ActionKind::kBackwardInput;
  EXPECT_FALSE(validate(of_halves, shape));
}

TEST(Pairs, AreRefusedWhereTheyAreNotReadable) {
  EXPECT_THAT(parse_csv("(0F1;0B0)OVERLAP_F_B\n0F1;0B0OVERLAP_F_B\n", "a.csv").error().text(),
              HasSubstr("a.csv:2: \"0F1;0B0OVERLAP_F_B\" is no pair"));
  EXPECT_THAT(plan::parse_pairs("0F1;0B0 0F2").error().text(), HasSubstr("\"0F2\" is no pair"));
}

}  // namespace
}  // namespace tombolo::schedule
