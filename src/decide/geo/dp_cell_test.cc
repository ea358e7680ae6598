#include "decide/geo/dp_cell.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "predict/cost/mixed_pipeline.h"
#include "support/played_pipeline.h"

namespace tombolo::geo {
namespace {

TEST(DpCell, OneDatacenterIsTheTextbookFormula) {
  // (M + P - 1)(f + b) = (4 + 3 - 1) 3 = 18, however many pipelines: nothing is shared.
  const DpCell cell{{{3, 1_s, 2_s}}, {}, 4, 4};
  EXPECT_EQ(one_forward_one_backward_cell(cell), 18_s);
  EXPECT_EQ(gpipe_cell(cell), 18_s);
  EXPECT_EQ(cell_at_least(cell), 18_s);
}

TEST(DpCell, GpipeByHand) {
  // 2 + 2 stages, f = 1, b = 2, M = 3, C = 2, w = 4 / 2 = 2, latency 1.
  // forward  4 + (2 + 1) + 2 max(1, 2) = 11;  backward 8 + 3 + 2 max(2, 2) = 15
  // the second pipeline is released (2 - 1) 3 max(1, 2) = 6 later
  const DpCell cell{{{2, 1_s, 2_s}, {2, 1_s, 2_s}}, {{2_s, 1_s}}, 2, 3};
  EXPECT_EQ(gpipe_cell(cell), 32_s);
}

TEST(DpCell, TwoPipelinesTakeTurnsOnTheWan) {
  // One stage on either side, one microbatch, f = b = 1, a transfer owns the WAN for 2.
  //   pipeline 0: F 0..1, WAN 1..3, F 3..4, B 4..5, WAN 5..7, B 7..8
  //   pipeline 1: F 0..1, WAN 3..5, F 5..6, B 6..7, WAN 7..9, B 9..10
  const DpCell cell{{{1, 1_s, 1_s}, {1, 1_s, 1_s}}, {{2_s, 0_s}}, 2, 1};
  EXPECT_DOUBLE_EQ(one_forward_one_backward_cell(cell).value, 10);
  // Latency comes after a turn and delays nobody's turn: 1 s more each way.
  DpCell far = cell;
  far.links[0].latency = 1_s;
  EXPECT_DOUBLE_EQ(one_forward_one_backward_cell(far).value, 12);
}

int64_t between(Random& random, int64_t min, int64_t max) {
  return min + static_cast<int64_t>(random.below(static_cast<uint64_t>(max - min + 1)));
}

// 1 to 3 parts of 1 to 3 stages; whole seconds, so that nothing is rounded.
DpCell any_cell(Random& random, int64_t pipelines) {
  const auto whole = [&](int64_t min, int64_t max) {
    return Seconds{static_cast<double>(between(random, min, max))};
  };
  DpCell cell{{}, {}, pipelines, between(random, 1, 8)};
  for (int64_t n = between(random, 2, 3); n > 0; --n) {
    cell.parts.push_back({between(random, 1, 3), whole(1, 3), whole(1, 5)});
    if (n > 1) cell.links.push_back({whole(0, 5), whole(0, 4)});
  }
  return cell;
}

TEST(DpCell, OnePipelineIsTheSameAsPlayedElsewhere) {
  Random random(1);
  for (int i = 0; i < 500; ++i) {
    const DpCell cell = any_cell(random, 1);
    std::vector<cost::StagePass> stages;
    std::vector<cost::Hop> hops;
    for (size_t part = 0; part < cell.parts.size(); ++part) {
      const CellPart& p = cell.parts[part];
      if (part > 0) {
        const CellLink& link = cell.links[part - 1];
        const Seconds transfer = link.occupancy + link.latency;
        hops.push_back({transfer, transfer, link.occupancy});
      }
      stages.insert(stages.end(), static_cast<size_t>(p.stages), {p.forward, p.backward});
      hops.insert(hops.end(), static_cast<size_t>(p.stages - 1), cost::Hop{});
    }
    EXPECT_DOUBLE_EQ(one_forward_one_backward_cell(cell).value,
                     cost::play_one_forward_one_backward(stages, hops, cell.microbatches).value)
        << "case " << i;
  }
}

TEST(DpCell, NothingIsFasterThanItsBound) {
  Random random(2);
  for (int i = 0; i < 500; ++i) {
    const DpCell cell = any_cell(random, between(random, 1, 4));
    EXPECT_LE(cell_at_least(cell).value, one_forward_one_backward_cell(cell).value) << i;
    EXPECT_LE(cell_at_least(cell).value, gpipe_cell(cell).value) << i;
  }
}

TEST(DpCell, ACellIsNoFasterThanItsWan) {
  // All microbatches of all pipelines cross each boundary one by one.
  Random random(3);
  for (int i = 0; i < 200; ++i) {
    const DpCell cell = any_cell(random, between(random, 1, 4));
    for (const CellLink& link : cell.links) {
      const auto crossings = static_cast<double>(cell.pipelines * cell.microbatches);
      EXPECT_GE(one_forward_one_backward_cell(cell).value, (crossings * link.occupancy).value);
    }
  }
}

TEST(DpCellDeathTest, PartsHaveStagesAndNothingTakesLessThanNoTime) {
  const DpCell cell{{{2, 1_s, 2_s}, {1, 1_s, 2_s}}, {{1_s, 0_s}}, 1, 1};
  DpCell other = cell;
  other.links.clear();
  EXPECT_DEATH(gpipe_cell(other), "2 parts, 0 links");
  other = cell;
  other.parts[1].stages = 0;
  EXPECT_DEATH(one_forward_one_backward_cell(other), "0 stages that take 1 s and 2 s");
  other = cell;
  other.links[0].latency = Seconds{-1};
  EXPECT_DEATH(cell_at_least(other), "a link of 1 s and -1 s");
}

}  // namespace
}  // namespace tombolo::geo
