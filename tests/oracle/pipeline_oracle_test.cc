// The simulator against the oracle, on everything small.
#include "oracle/pipeline_oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/random.h"
#include "predict/sim/simulate.h"
#include "support/seeds.h"
#include "support/toy_plan.h"

namespace tombolo {
namespace {

using testing::Toy;
using testing::toy_plan;

struct Case {
  Toy toy;
  oracle::Pipelines pipelines;
};

// Which node pair each replica's channel from the last stage of a datacenter to the first one of
// the next uses: devices are filled in the order of ranks.
std::vector<int> node_pairs(const Toy& toy, size_t datacenter) {
  std::vector<std::pair<int64_t, int64_t>> seen;
  std::vector<int> out;
  for (int64_t r = 0; r < toy.replicas; ++r) {
    const int64_t source = (toy.stages[datacenter] - 1) * toy.replicas + r;
    const std::pair pair{source / toy.devices_per_node, r / toy.devices_per_node};
    const auto found = std::find(seen.begin(), seen.end(), pair);
    out.push_back(static_cast<int>(found - seen.begin()));
    if (found == seen.end()) seen.push_back(pair);
  }
  return out;
}

// The WAN: either an imagined transfer, or 1 MB at a rate that takes whole milliseconds alone.
void random_wan(Random& random, Case& c) {
  Toy& toy = c.toy;
  oracle::Boundary wan;
  wan.occupancy = static_cast<double>(random.below(6));
  if (random.below(2) == 0) {
    toy.transfer = wan.occupancy * 1_ms;
  } else {
    const auto alone = static_cast<double>(1 << random.below(4));
    wan.size = 1;
    wan.pair_limit = 1 / alone;
    wan.latency = static_cast<double>(random.below(9));
    toy.boundary_bytes = 1'000'000;
    toy.node_pair_limit = 8_Gbps / alone;
    toy.one_way_latency = wan.latency * 1_ms;
    if (random.below(2) == 0) {
      // Between a little more than one flow and more than all of them can use.
      const double flows = 1 + 0.5 * static_cast<double>(random.below(5));
      wan.path_limit = flows * wan.pair_limit;
      toy.path_limit = flows * toy.node_pair_limit;
    }
  }
  for (size_t d = 0; d < toy.stages.size(); ++d) {
    c.pipelines.boundaries.resize(c.pipelines.boundaries.size() +
                                  static_cast<size_t>(toy.stages[d] - 1));
    if (d + 1 == toy.stages.size()) break;
    wan.node_pair = node_pairs(toy, d);
    c.pipelines.boundaries.push_back(wan);
  }
}

// Times of whole milliseconds, one of which is a tick.
Case random_case(Random& random, int64_t replicas) {
  Case out;
  oracle::Pipelines& p = out.pipelines;
  Toy& toy = out.toy;
  toy.replicas = replicas;
  toy.devices_per_node = 1 + static_cast<int64_t>(random.below(replicas > 1 ? 2 : 1));
  p.replicas = static_cast<int>(replicas);
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
  if (replicas > 1) {
    p.reduce = static_cast<int>(random.below(9));
    toy.reduce = static_cast<double>(p.reduce) * 1_ms;
  }
  random_wan(random, out);
  return out;
}

TEST(PipelineOracle, AgreesWithTheClosedForm) {
  // (4 + 3 - 1) x (1 + 2)
  const oracle::Pipelines p{false, 3, 4, {1, 1, 1}, {2, 2, 2}, {0, 0, 0}, {{}, {}}};
  EXPECT_EQ(oracle::makespan(p), 18);
}

// Three flows of size 12; two share a node pair of 4 per tick, the path has 7. The pair gives its
// two flows 2 each, so the third could have 5 of the path, but its own pair says 4: it takes 3
// ticks, the two take 6. With a path of 6: 2 each, all take 6.
TEST(PipelineOracle, SharesAsByHand) {
  const auto last_backward = [](double path) {
    oracle::Boundary wan{.size = 12, .pair_limit = 4, .path_limit = path, .node_pair = {0, 0, 1}};
    oracle::Pipelines p{true, 2, 1, {0, 0}, {0, 0}, {0, 0}, {wan}, 3, 5};
    return oracle::makespan(p);
  };
  // There and back, then the sum.
  EXPECT_EQ(last_backward(7), 6 + 6 + 5);
  EXPECT_EQ(last_backward(6), 6 + 6 + 5);
  EXPECT_EQ(last_backward(3), 12 + 12 + 5);
}

// Where flows share, an end may fall between ticks; the simulator then rounds up to nanoseconds, at
// each of the messages that follow one another.
TEST(PipelineOracle, AgreesWithTheSimulator) {
  const uint64_t count = seeds(400, 20'000);
  for (int64_t replicas = 1; replicas <= 3; ++replicas) {
    for (uint64_t seed = 1; seed <= count; ++seed) {
      Random random(seed);
      const Case c = random_case(random, replicas);
      const Result<sim::Simulation> simulation = sim::simulate(toy_plan(c.toy));
      ASSERT_TRUE(simulation) << simulation.error().text();
      const double expected = oracle::makespan(c.pipelines) * 1e6;
      ASSERT_NEAR(static_cast<double>(simulation->iteration.ns), expected, replicas == 1 ? 0 : 100)
          << "seed " << seed << ": " << replicas << " x " << c.toy.schedule << ", "
          << c.pipelines.stages << " stages, " << c.pipelines.microbatches << " microbatches";
    }
  }
}

}  // namespace
}  // namespace tombolo
