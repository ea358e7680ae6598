// Two copies of the model in one pipeline: DualPipe.
#include "spec/schedule/bidirectional.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "spec/schedule/ascii.h"
#include "spec/schedule/schedule_csv.h"
#include "support/messages_sent.h"

namespace tombolo::schedule {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Le;

PipelineShape two_copies(int32_t positions, int32_t microbatches, bool pairs = true) {
  PipelineShape shape = bidirectional_shape(positions, microbatches);
  shape.pairs = pairs;
  return shape;
}

// Nanoseconds of a stage: forward, the halves of its backward, a pair that ends at once.
struct CopyStage {
  int64_t f, i, w, pair;
};
Times copy_times(const PipelineShape& shape, const CopyStage& stage) {
  Times times = equal_times(shape.stages, {{stage.f}, {stage.i}, {stage.w}, {}});
  for (int32_t s = 0; s < shape.stages; ++s) {
    times.pairs.push_back({s, shape.stages - 1 - s, {stage.pair}, {stage.pair}});
  }
  return times;
}

// Published: (P/2-1)(F&B + B - 3 W), which holds where no part is longer than an input's half.
TEST(Bidirectional, TakesAsLongAsItsLaw) {
  for (const auto& [f, i, w] :
       {std::tuple{6, 6, 6}, {6, 6, 3}, {4, 6, 6}, {5, 7, 3}, {8, 4, 4}, {4, 4, 8}, {6, 4, 6}}) {
    for (int64_t pair = std::max(f, i + w); pair <= f + i + w; pair += 2) {
      for (int32_t p = 2; p <= 10; p += 2) {
        for (int32_t m = 2 * p; m <= 4 * p; m += 2) {
          const PipelineShape shape = two_copies(p, m);
          const int64_t b = i + w;
          const int64_t work = m * (f + b) - (m - p) * (f + b - pair);
          const int64_t longer = std::max(0, f - i) + std::max(0, w - i);
          ASSERT_EQ(makespan_of(bidirectional(shape), shape, copy_times(shape, {f, i, w, pair})).ns,
                    work + (p / 2 - 1) * (pair + b - 3 * w + longer))
              << p << " positions, " << m << " microbatches, " << f << " " << i << " " << w << " "
              << pair;
        }
      }
    }
  }
}

// Published: P + 1 microbatches of a stage, and 1F1B's messages.
TEST(Bidirectional, TakesItsMemoryAndTraffic) {
  for (const bool pairs : {false, true}) {
    const Schedule schedule = bidirectional(two_copies(4, 16, pairs));
    EXPECT_THAT(peak_in_flight(schedule), Each(5)) << pairs;
    EXPECT_THAT(messages_sent(schedule), ElementsAre(16, 32, 32, 16));
  }
  for (int32_t p = 2; p <= 8; p += 2) {
    EXPECT_THAT(peak_in_flight(bidirectional(two_copies(p, 4 * p))), Each(Le(p + 1)));
  }
}

TEST(Bidirectional, EverySizeIsSound) {
  for (int32_t p = 2; p <= 8; p += 2) {
    for (int32_t m = 2; m <= 20; m += 2) {
      for (const bool recomputes : {false, true}) {
        PipelineShape shape = two_copies(p, m, m % 4 == 0);
        shape.replicas = 1 + m % 3;
        if (recomputes) shape.recompute.assign(static_cast<size_t>(shape.stages), true);
        EXPECT_TRUE(validate_copies(bidirectional(shape), shape)) << p << " x " << m;
      }
    }
  }
}

// As dualpipe.py orders rank 0 of two: a forward of each copy, pairs in turn, the last backwards.
TEST(Bidirectional, RunsForwardsBesideBackwardsOfTheOtherCopy) {
  const Schedule schedule = bidirectional(two_copies(2, 8));
  EXPECT_EQ(to_csv(schedule, CsvContent::kComputations),
            "0F0,3F0,(0F1;3B0)OVERLAP_F_B,(3F1;0B0)OVERLAP_F_B,(0F2;3B1)OVERLAP_F_B,"
            "(3F2;0B1)OVERLAP_F_B,(0F3;3B2)OVERLAP_F_B,(3F3;0B2)OVERLAP_F_B,3B3,0I3,0W3,0U,3U\n"
            "2F0,1F0,(2F1;1B0)OVERLAP_F_B,(1F1;2B0)OVERLAP_F_B,(2F2;1B1)OVERLAP_F_B,"
            "(1F2;2B1)OVERLAP_F_B,(2F3;1B2)OVERLAP_F_B,(1F3;2B2)OVERLAP_F_B,1B3,2I3,2W3,1U,2U\n");
}

// The copies hand nothing to one another: of a model in one piece this order is broken.
TEST(Bidirectional, IsNoScheduleOfOneModel) {
  const PipelineShape shape = two_copies(4, 8);
  const Schedule schedule = bidirectional(shape);
  EXPECT_TRUE(validate_copies(schedule, shape));
  EXPECT_THAT(validate(schedule, shape).error().text(), HasSubstr("4F0 comes before 3F0"));
  Schedule short_one = schedule;
  short_one.ranks[0].erase(short_one.ranks[0].begin());
  EXPECT_FALSE(validate_copies(short_one, shape));
}

TEST(Bidirectional, IsDrawn) {
  const PipelineShape shape = two_copies(2, 4);
  EXPECT_THAT(
      draw_ascii(evaluate_copies(bidirectional(shape), shape, copy_times(shape, {1, 1, 1, 2}))),
      AllOf(HasSubstr("with it |"), HasSubstr("      1 |")));
}

}  // namespace
}  // namespace tombolo::schedule
