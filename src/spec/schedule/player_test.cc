// The player against figures that are printed or can be counted by hand.
#include "spec/schedule/player.h"

#include <gtest/gtest.h>

#include <set>

#include "base/random.h"
#include "spec/schedule/policy.h"

namespace tombolo::schedule {
namespace {

constexpr int64_t kSlot = 1'000'000;

// Figure 6 of Atlas: 6 stages, two per datacenter, two pipelines, four microbatches; a forward and
// a recomputation take a slot, a backward two; a transfer between datacenters two, or one when both
// pipelines' nodes carry it. The last stage never recomputes.
struct Figure6 {
  PipelineShape shape{.stages = 6,
                      .microbatches = 4,
                      .recompute = {true, true, true, true, true, false},
                      .replicas = 2};
  Times times = equal_times(6, {{kSlot}, {kSlot}, {kSlot}, {kSlot}});

  explicit Figure6(layout::Sharing sharing) {
    const int64_t transfer = sharing == layout::Sharing::kTemporal ? kSlot : 2 * kSlot;
    times.transfer = {{0}, {transfer}, {0}, {transfer}, {0}};
    if (sharing == layout::Sharing::kSpatial) return;
    shape.cell = 2;
    shape.shared = {false, true, false, true, false};
  }

  int64_t slots(const std::string& name, layout::Discipline discipline) const {
    const Rules rules = policy_of(*layout::find_schedule(name)).rules(shape, times, discipline);
    return play(name, shape, times, rules)->makespan.ns / kSlot;
  }
};

TEST(Player, VarunaTakesThe38SlotsOfFigure6) {
  const Figure6 spatial(layout::Sharing::kSpatial);
  EXPECT_EQ(spatial.slots("varuna", layout::Discipline::kGreedy), 38);
}

TEST(Player, AtlasTakesThe36SlotsOfFigure6WherePipelinesAreReleasedOneAfterTheOther) {
  const Figure6 temporal(layout::Sharing::kTemporal);
  EXPECT_EQ(temporal.slots("atlas", layout::Discipline::kReleased), 36);
  EXPECT_EQ(temporal.slots("atlas", layout::Discipline::kStrict), 36);
  EXPECT_EQ(temporal.slots("atlas", layout::Discipline::kGreedy), 34);
}

}  // namespace
}  // namespace tombolo::schedule
