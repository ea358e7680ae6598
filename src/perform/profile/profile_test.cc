#include "perform/profile/profile.h"

#include <gtest/gtest.h>

#include "perform/kernels/emulated_kernels.h"
#include "perform/stage/measure_link.h"
#include "support/test_plan.h"

namespace tombolo::profile {
namespace {

// Emulated kernels on a clock that only they move take exactly what the Plan says.
TEST(Profiling, FindsWhatTheKernelsTake) {
  const plan::Plan plan =
      make_test_plan({.stages = 3, .microbatches = 4, .forward = "2 ms", .backward = "5 ms"});
  for (int32_t stage = 0; stage < 3; ++stage) {
    ManualClock clock;
    kernels::EmulatedKernels kernels(plan, stage, clock);
    const auto profile = profile_stage(plan, stage, kernels, clock, 100_ms);
    ASSERT_TRUE(profile) << profile.error().text();
    EXPECT_DOUBLE_EQ(profile->cost.forward.value, 0.002);
    EXPECT_DOUBLE_EQ(profile->cost.backward.value, 0.005);
    ASSERT_TRUE(profile->cost.backward_weight);
    EXPECT_DOUBLE_EQ(profile->cost.backward_weight->value, 0.0025);  // half, if not given
    EXPECT_EQ(profile->spread.forward.value, 0);
    // An iteration takes 4 x 7 ms: 4 of them begin within the 100 ms after the first.
    EXPECT_EQ(profile->samples, 4 * 4);
    const auto again = read_fields<StageProfile>(write_fields(*profile), "again");
    EXPECT_EQ(*again, *profile);
  }
}

// Only bounds that a slow machine cannot break: the link adds its delay, and is no faster than
// paced.
TEST(MeasuringLinks, FindsTheirShape) {
  plan::Plan plan = make_test_plan({.stages = 2});
  plan.cost_source = plan::CostSource::kRoofline;
  plan.wan_transfer.reset();  // 2 ms, 1 Gbps
  SystemClock clock;
  const auto links = stage::measure_links(plan, clock);
  ASSERT_TRUE(links) << links.error().text();
  ASSERT_EQ(links->size(), 1u);
  const plan::MeasuredLink& link = links->front();
  EXPECT_EQ(link.between, (std::vector<std::string>{"oregon", "paris"}));
  EXPECT_GE(link.one_way_latency.value, 0.002);
  RecordProperty("latency_us", static_cast<int>(link.one_way_latency.value * 1e6));
  fmt::print("2 ms and 1 Gbps measured as {} and {}\n", brief(link.one_way_latency),
             brief(link.rate));
}

TEST(MeasuringLinks, ImaginedTransfersAreNotMeasured) {
  SystemClock clock;
  EXPECT_TRUE(stage::measure_links(make_test_plan({.stages = 2}), clock)->empty());
}

TEST(ProfilingDeathTest, TheStageIsOneOfThePlan) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  ManualClock clock;
  kernels::EmulatedKernels kernels(plan, 1, clock);
  EXPECT_DEATH(static_cast<void>(profile_stage(plan, 2, kernels, clock, 1_ms)), "stage 2 of 2");
}

}  // namespace
}  // namespace tombolo::profile
