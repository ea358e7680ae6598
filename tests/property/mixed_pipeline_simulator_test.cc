// The planner plays 1F1B over unlike stages and slow links as the simulator does.
#include <gtest/gtest.h>

#include "base/random.h"
#include "predict/cost/mixed_pipeline.h"
#include "predict/sim/simulate.h"
#include "support/played_pipeline.h"
#include "support/toy_plan.h"

namespace tombolo {
namespace {

Seconds some_milliseconds(Random& random, uint64_t most) {
  return Seconds{1e-3 * static_cast<double>(1 + random.below(most))};
}

TEST(MixedPipelineAgainstTheSimulator, PlaysTheSameIteration) {
  Random random(21);
  for (int round = 0; round < 200; ++round) {
    testing::Toy toy{.stages = {}};
    std::vector<cost::StagePass> stages;
    toy.forward.clear();
    toy.backward.clear();
    toy.microbatches = 1 + static_cast<int64_t>(random.below(20));
    toy.one_way_latency = some_milliseconds(random, 30);
    // Bytes over a rate after a latency, or a transfer that is given.
    if (round % 2 == 0)
      toy.boundary_bytes = 2 * (1 + static_cast<int64_t>(random.below(1'000'000)));
    if (round % 2 == 1) toy.transfer = some_milliseconds(random, 12);
    const auto datacenters = 1 + random.below(4);
    for (uint64_t d = 0; d < datacenters; ++d) {
      toy.stages.push_back(1 + static_cast<int64_t>(random.below(3)));
      for (int64_t s = 0; s < toy.stages.back(); ++s) {
        toy.forward.push_back(some_milliseconds(random, 9));
        toy.backward.push_back(some_milliseconds(random, 20));
        stages.push_back({toy.forward.back(), toy.backward.back()});
      }
    }
    const plan::Plan plan = testing::toy_plan(toy);
    std::vector<cost::Hop> hops;
    for (int32_t s = 1; s < static_cast<int32_t>(stages.size()); ++s) {
      const plan::Channel channel = plan::channel_between(plan, s - 1, s);
      const Seconds busy = channel.serialisation(plan.boundary);
      hops.push_back({channel.latency + busy, channel.latency + busy, busy});
    }
    const Result<sim::Simulation> simulated = sim::simulate(plan);
    ASSERT_TRUE(simulated) << simulated.error().text();
    const Seconds played = cost::play_one_forward_one_backward(stages, hops, toy.microbatches);
    // The simulator counts whole nanoseconds.
    EXPECT_NEAR(static_cast<double>(simulated->iteration.ns) * 1e-9, played.value, 2e-6)
        << "round " << round;
  }
}

}  // namespace
}  // namespace tombolo
