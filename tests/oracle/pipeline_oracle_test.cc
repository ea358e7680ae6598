// The simulator against the tick-by-tick oracle, on everything small.
#include "oracle/pipeline_oracle.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/random.h"
#include "sim/simulate.h"
#include "support/toy_plan.h"

namespace tombolo {
namespace {

using testing::Toy;
using testing::toy_plan;

struct Case {
  Toy toy;
  oracle::Pipeline pipeline;
};

// Times of whole milliseconds, one of which is a tick.
Case random_case(Random& random) {
  Case out;
  oracle::Pipeline& p = out.pipeline;
  Toy& toy = out.toy;
  p.gpipe = random.below(2) == 0;
  p.microbatches = 1 + static_cast<int>(random.below(6));
  toy.schedule = p.gpipe ? "gpipe" : "1f1b";
  toy.microbatches = p.microbatches;
  toy.stages.clear();
  p.stages = 0;
  const uint64_t datacenters = 1 + random.below(3);
  for (uint64_t d = 0; d < datacenters; ++d) {
    toy.stages.push_back(1 + static_cast<int64_t>(random.below(2)));
    p.stages += static_cast<int>(toy.stages.back());
  }
  const auto fill = [&](std::vector<int>& ticks, std::vector<Seconds>& times, uint64_t from,
                        uint64_t to) {
    times.clear();
    for (int s = 0; s < p.stages; ++s) {
      ticks.push_back(static_cast<int>(from + random.below(to - from + 1)));
      times.push_back(static_cast<double>(ticks.back()) * 1_ms);
    }
  };
  fill(p.forward, toy.forward, 1, 5);
  fill(p.backward, toy.backward, 1, 7);
  fill(p.recompute, toy.recompute, 0, random.below(2) * 4);

  // The WAN: either an imagined transfer, or 1 MB at a rate that takes whole milliseconds.
  int occupancy = static_cast<int>(random.below(6));
  int latency = 0;
  if (random.below(2) == 0) {
    toy.transfer = occupancy * 1_ms;
  } else {
    occupancy = 1 << random.below(4);
    latency = static_cast<int>(random.below(9));
    toy.boundary_bytes = 1'000'000;
    toy.node_pair_limit = 8_Gbps / occupancy;
    toy.one_way_latency = latency * 1_ms;
  }
  for (size_t d = 0; d < toy.stages.size(); ++d) {
    for (int64_t s = 0; s + 1 < toy.stages[d]; ++s) {
      p.occupancy.push_back(0);
      p.latency.push_back(0);
    }
    p.occupancy.push_back(occupancy);
    p.latency.push_back(latency);
  }
  return out;
}

TEST(PipelineOracle, AgreesWithTheClosedForm) {
  // (4 + 3 - 1) x (1 + 2)
  const oracle::Pipeline p{false, 3, 4, {1, 1, 1}, {2, 2, 2}, {0, 0, 0}, {0, 0}, {0, 0}};
  EXPECT_EQ(oracle::makespan(p), 18);
}

TEST(PipelineOracle, AgreesWithTheSimulator) {
  const uint64_t seeds = std::getenv("TOMBOLO_LONG") != nullptr ? 20'000 : 400;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    Random random(seed);
    const Case c = random_case(random);
    const Result<sim::Simulation> simulation = sim::simulate(toy_plan(c.toy));
    ASSERT_TRUE(simulation) << simulation.error().text();
    ASSERT_EQ(simulation->iteration.ns, oracle::makespan(c.pipeline) * 1'000'000)
        << "seed " << seed << ": " << c.toy.schedule << ", " << c.pipeline.stages << " stages, "
        << c.pipeline.microbatches << " micro-batches";
  }
}

}  // namespace
}  // namespace tombolo
