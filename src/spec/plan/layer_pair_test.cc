#include "spec/plan/layer_pair.h"

#include <gtest/gtest.h>

#include "spec/plan/job.h"

namespace tombolo::plan {
namespace {

// Two positions, a folded model of nine layers: three for the first stage, two for the others. A
// layer takes 1 ms forward and 2 ms back, the head 1 ms and 2 ms more.
Plan folded() {
  const std::string text = R"(
    [model]
    layers = 9
    hidden = 64
    heads = 4
    vocabulary = 256
    sequence = 64
    [[cluster.datacenter]]
    name = "a"
    device = "h100-80g"
    devices_per_node = 2
    [training]
    global_batch = 8
    [parallelism]
    pipeline = 2
    virtual_stages = 2
    layers_per_stage = [3, 2, 2, 2]
    schedule = "dualpipev"
)";
  Plan plan = *lay_out(*parse_job(text, "job.toml"));
  for (Stage& stage : plan.stages) {
    const double units = static_cast<double>(stage.slice.layers) + (stage.slice.head ? 1 : 0);
    stage.cost.forward = 1_ms * units;
    stage.cost.backward = 2_ms * units;
  }
  return plan;
}

// A layer's pair takes 2.5 ms instead of 3, its forward ends 0.5 ms before it.
TEST(LayerPair, SavesAsManyLayersAsBothStagesHave) {
  const auto pairs = pair_costs(
      folded(), {.apart = 3_ms, .together = 2.5_ms, .forward_end = 2_ms, .backward_end = 2.5_ms});
  ASSERT_EQ(pairs.size(), 4u);
  const auto expect = [&](size_t s, double forward_end, double backward_end) {
    EXPECT_EQ(pairs[s].forward, static_cast<int32_t>(s));
    EXPECT_EQ(pairs[s].backward, static_cast<int32_t>(3 - s));
    EXPECT_NEAR(pairs[s].forward_end.value, forward_end * 1e-3, 1e-12) << s;
    EXPECT_NEAR(pairs[s].backward_end.value, backward_end * 1e-3, 1e-12) << s;
  };
  expect(0, 8, 8);    // 3 + 6 - 2 x 0.5, and the third layer of the forward is last
  expect(1, 4.5, 5);  // 2 + 4 - 1
  expect(2, 4.5, 5);
  expect(3, 7.5, 8);  // 3 + 6 - 1: the backward has a layer more
}

// However much a layer saves, no side ends before it would alone.
TEST(LayerPair, IsNoShorterThanEitherSide) {
  const auto pairs = pair_costs(
      folded(), {.apart = 3_ms, .together = 1_ms, .forward_end = 0.5_ms, .backward_end = 1_ms});
  for (const PairCost& pair : pairs) {
    const Plan plan = folded();
    EXPECT_GE(pair.forward_end, plan.stages[static_cast<size_t>(pair.forward)].cost.forward);
    EXPECT_GE(pair.backward_end, plan.stages[static_cast<size_t>(pair.backward)].cost.backward);
  }
}

// Times of a layer that were measured elsewhere count in proportion, unless one law has priced both.
TEST(LayerPair, IsScaledToStagesOfAnotherSource) {
  const LayerPair slow{.apart = 30_ms,
                       .together = 25_ms,
                       .forward_end = 20_ms,
                       .backward_end = 25_ms,
                       .order = {"bBDA2", "LN1"}};
  Plan plan = folded();
  plan.cost_source = CostSource::kRoofline;
  const auto scaled = pair_costs(plan, slow);
  EXPECT_NEAR(scaled[1].forward_end.value, 4.5e-3, 1e-12);
  EXPECT_NEAR(scaled[1].backward_end.value, 5e-3, 1e-12);
  EXPECT_EQ(scaled[1].order, slow.order);
  plan.cost_source = CostSource::kTombolo;
  EXPECT_NEAR(pair_costs(plan, slow)[1].backward_end.value, 4e-3, 1e-12);  // of the longer side
}

}  // namespace
}  // namespace tombolo::plan
