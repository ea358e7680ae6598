// Searched orders with pairs: never longer than W and DualPipeV, nor shorter than a bound.
#include "decide/schedule_search/pair_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "decide/schedule_proof/bounds.h"

namespace tombolo::schedule_search {
namespace {

struct PairCase {
  schedule::PipelineShape shape;
  schedule::Times times;
};

// Nanoseconds of a chunk; a pair takes (f + i + w) / s, rounded up.
PairCase fold(int32_t positions, int32_t microbatches, int64_t f, int64_t i, int64_t w, double s) {
  PairCase out{schedule::shape_for(layout::ScheduleKind::kW, positions, microbatches), {}};
  out.shape.pairs = true;
  out.times = schedule::equal_times(out.shape.stages, {{f}, {i}, {w}, {}});
  const auto pair = static_cast<int64_t>(std::ceil(static_cast<double>(f + i + w) / s));
  for (int32_t stage = 0; stage < out.shape.stages; ++stage) {
    out.times.pairs.push_back({stage, out.shape.stages - 1 - stage, {pair}, {pair}});
  }
  return out;
}

int64_t published(const char* name, const PairCase& c) {
  return schedule::makespan_of(*schedule::build(*layout::find_schedule(name), c.shape, c.times),
                               c.shape, c.times)
      .ns;
}

TEST(PairSearch, IsNeverLongerThanWhatIsPublishedNorShorterThanABound) {
  int better = 0;
  for (const auto& [f, i, w] : {std::tuple{60, 60, 60}, {40, 60, 30}, {60, 90, 40}}) {
    for (const double s : {1.1, 1.3}) {
      for (int32_t p = 1; p <= 3; ++p) {
        const PairCase c = fold(p, 3 * p, f, i, w, s);
        const Result<PairsFound> found = search_pairs(c.shape, c.times, {}, {.steps_max = 2'000});
        ASSERT_TRUE(found) << found.error().text();
        EXPECT_TRUE(schedule::validate(found->schedule, c.shape));
        const int64_t least = std::min(published("w", c), published("dualpipev", c));
        EXPECT_LE(found->makespan.ns, least);
        EXPECT_EQ(found->improved, found->makespan.ns < least);
        better += found->improved;
        for (const auto& bound : schedule_proof::lower_bounds(c.shape, c.times, {})) {
          EXPECT_GE(found->makespan, bound.value) << bound.reason;
        }
        RecordProperty(fmt::format("P{}_f{}_i{}_w{}_s{}", p, f, i, w, s),
                       fmt::format("{} of {}", found->makespan.ns, least));
      }
    }
  }
  EXPECT_GE(better, 3);
}

// The memory of both, and no more.
TEST(PairSearch, KeepsToTheMemory) {
  const PairCase c = fold(3, 9, 40, 60, 30, 1.2);
  const PairsFound found = *search_pairs(c.shape, c.times, {}, {.steps_max = 1'000});
  EXPECT_THAT(schedule::peak_in_flight(found.schedule), ::testing::Each(::testing::Le(7)));
  const auto none = search_pairs(c.shape, c.times, {{2, 2, 2}}, {.steps_max = 10});
  EXPECT_THAT(none.error().text(), ::testing::HasSubstr("neither w nor dualpipev fits"));
}

TEST(PairSearch, KeepsBackwardsWholeWhereItMust) {
  const PairCase c = fold(2, 8, 40, 60, 30, 1.2);
  const PairsFound found =
      *search_pairs(c.shape, c.times, {}, {.steps_max = 500, .split_backward = false});
  EXPECT_EQ(found.start, "w");
  for (const schedule::RankActions& order : found.schedule.ranks) {
    for (const action::Action& each : order) {
      EXPECT_NE(each.kind, action::ActionKind::kBackwardWeight);
    }
  }
}

// Equal seeds, equal orders.
TEST(PairSearch, IsRepeatable) {
  const PairCase c = fold(2, 6, 40, 60, 30, 1.3);
  const PairSearchOptions options{.steps_max = 500};
  EXPECT_EQ(search_pairs(c.shape, c.times, {}, options)->schedule,
            search_pairs(c.shape, c.times, {}, options)->schedule);
}

}  // namespace
}  // namespace tombolo::schedule_search
