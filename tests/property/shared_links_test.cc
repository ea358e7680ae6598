// Cells that share the WAN in time: the simulator against the longest path, and what must hold of
// every simulation of theirs. A failure prints the seed of its case.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "base/random.h"
#include "predict/sim/interpret.h"
#include "predict/sim/simulate.h"
#include "predict/sim/trace_check.h"
#include "spec/schedule/schedule.h"
#include "support/test_links.h"
#include "support/toy_plan.h"

namespace tombolo {
namespace {

using testing::Toy;
using testing::toy_plan;

// Two or more datacenters, cells of 1 to 3 pipelines, any published order of a line of stages.
Toy random_toy(Random& random) {
  Toy toy;
  const char* names[] = {"gpipe", "1f1b", "varuna", "zb-h1"};
  toy.schedule = names[random.below(4)];
  toy.stages.clear();
  toy.forward.clear();
  toy.backward.clear();
  toy.microbatches = 1 + static_cast<int64_t>(random.below(5));
  toy.cell = 1 + static_cast<int64_t>(random.below(3));
  toy.replicas = toy.cell * (1 + static_cast<int64_t>(random.below(2)));
  const bool recomputes = random.below(2) == 0;
  for (uint64_t d = 0; d < 2 + random.below(2); ++d) {
    toy.stages.push_back(1 + static_cast<int64_t>(random.below(2)));
    for (int64_t s = 0; s < toy.stages.back(); ++s) {
      const auto time = [&](uint64_t most) {
        return static_cast<double>(1 + random.below(most)) * 1_ms;
      };
      toy.forward.push_back(time(4));
      toy.backward.push_back(time(8));
      if (recomputes) toy.recompute.push_back(time(4));
    }
  }
  return toy;
}

void imagine_transfers(Random& random, Toy& toy) {
  toy.transfer = static_cast<double>(toy.cell * static_cast<int64_t>(random.below(6))) * 1_ms;
  toy.latency = static_cast<double>(random.below(7)) * 1_ms;
}

// Every stage of every pipeline in any datacenter: some of a cell cross a boundary alike, others
// elsewhere or not at all, and cells differ.
void scatter(Random& random, Toy& toy) {
  for (size_t s = 0; s < toy.forward.size(); ++s) {
    toy.places.emplace_back();
    for (int64_t replica = 0; replica < toy.replicas; ++replica) {
      toy.places.back().push_back(testing::datacenter_name(random.below(toy.stages.size())));
    }
  }
}

// Any order of the links in which everybody can finish, and any releases.
void shuffle(Random& random, const schedule::PipelineShape& shape, schedule::Schedule& schedule) {
  do {
    schedule::order_links_by(
        [&](int32_t replica, size_t n) {
          return static_cast<double>(n) + static_cast<double>(replica % shape.cell) +
                 2 * random.uniform();
        },
        shape, schedule);
  } while (!schedule::validate(schedule, shape));
  schedule.release.clear();
  for (int32_t replica = 0; replica < shape.replicas; ++replica) {
    schedule.release.push_back({static_cast<int64_t>(random.below(9)) * 1'000'000});
  }
}

// What happened in one iteration, by (rank, action).
using Happened = std::map<std::pair<int32_t, action::Action>, sim::Span>;

Happened longest_path(const trace::Trace& trace) {
  Happened out;
  for (const trace::Interval& interval : trace.intervals) {
    out[{interval.rank, interval.action}] = {interval.start, interval.end};
  }
  return out;
}

// Where transfers are fixed occupancies, simulator and longest path are two ways to one answer, for
// each computation and each transfer.
TEST(SharedLinks, SimulatorAgreesWithTheLongestPath) {
  int shared = 0, parts = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    Toy toy = random_toy(random);
    imagine_transfers(random, toy);
    if (seed > 200) scatter(random, toy);
    const plan::Plan plan = toy_plan(toy);
    const schedule::PipelineShape shape = schedule::shape_of(plan);
    const schedule::Times times = schedule::times_of(plan);
    parts += shape.groups.empty() ? 0 : 1;
    // Where nobody shares, boundaries count as the slowest pipeline has them.
    if (!toy.places.empty() && shape.groups.empty()) continue;
    schedule::Schedule schedule = *schedule::build(plan);
    if (random.below(4) > 0) shuffle(random, shape, schedule);
    shared += schedule.links.empty() ? 0 : 1;

    const graph::Graphs graphs = sim::repeat(schedule::to_graph(plan, schedule), 2);
    const sim::Execution execution =
        sim::interpret(graphs, sim::channels_of(plan, schedule, graphs));
    const trace::Trace path = schedule::evaluate(schedule, shape, times);
    Happened simulated;  // the first iteration
    for (const graph::Graph& graph : graphs) {
      for (size_t i = 0; i < graph.nodes.size() / 2; ++i) {
        const sim::Span& span = execution.spans[static_cast<size_t>(graph.rank)][i];
        if (graph.nodes[i].type == graph::NodeType::kReceive || span.start == span.end) continue;
        if (graph.nodes[i].type == graph::NodeType::kCollective) continue;  // waits for others
        // Sums of replicas that lie apart are messages.
        if (graph.nodes[i].action->kind == action::ActionKind::kReduceGradients) continue;
        simulated[{graph.rank, *graph.nodes[i].action}] = span;
      }
    }
    EXPECT_EQ(simulated, longest_path(path));
    EXPECT_EQ(schedule::makespan_of(schedule, shape, times), schedule::bubble_of(path).makespan);
  }
  EXPECT_GT(shared, 200);
  EXPECT_GT(parts, 80);
}

// Of three pipelines one stays in its datacenter; the other two cross the WAN, over a pair's link in
// 4 ms, over both in 2, one after the other, 3 ms away (as by hand in shared_links_test of
// spec/schedule): the last one is back at 16 ms and ends at 18. Each by itself ends after
// 1 + 4 + 3 + 1 + 2 + 4 + 3 + 2 = 20 ms.
TEST(SharedLinks, TwoPipelinesOfThreeByHand) {
  Toy toy{.schedule = "gpipe",
          .stages = {1, 1},
          .microbatches = 1,
          .transfer = 4_ms,
          .latency = 3_ms,
          .replicas = 3,
          .cell = 3,
          .places = {{"dc0", "dc0", "dc0"}, {"dc0", "dc1", "dc1"}}};
  const auto last_end = [](const plan::Plan& plan) {
    const trace::Trace trace = sim::simulate(plan)->trace;
    std::map<int32_t, int64_t> ends;  // of the backwards of each pipeline, in ms
    for (const trace::Interval& interval : trace.intervals) {
      if (interval.iteration != 1 || interval.action.kind != action::ActionKind::kBackward)
        continue;
      int64_t& end = ends[interval.rank % 3];
      end = std::max(end, interval.end.ns / 1'000'000);
    }
    return ends;
  };
  const plan::Plan plan = toy_plan(toy);
  EXPECT_EQ(last_end(plan), (std::map<int32_t, int64_t>{{0, 6}, {1, 16}, {2, 18}}));
  plan::Plan apart = plan;
  apart.parallelism.sharing = layout::Sharing::kSpatial;
  EXPECT_EQ(last_end(apart), (std::map<int32_t, int64_t>{{0, 6}, {1, 20}, {2, 20}}));
}

// Rates, latencies and paths: one transfer at a time of those that share owns a boundary and a direction, in
// the order of the schedule, over all iterations. In the Trace an interval lasts until its last
// byte is there, a latency after it left.
TEST(SharedLinks, NoTwoTransfersOfACellOverlap) {
  int parts = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    Toy toy = random_toy(random);
    if (random.below(2) == 0) {
      imagine_transfers(random, toy);
    } else {
      toy.boundary_bytes = 2 * (1 + static_cast<int64_t>(random.below(seed > 100 ? 500 : 500'000)));
      toy.one_way_latency = static_cast<double>(random.below(40'000)) * 1_us;
      toy.node_pair_limit = static_cast<double>(50 + random.below(5000)) * 1_Mbps;
      if (random.below(2) == 0) {
        toy.path_limit = static_cast<double>(50 + random.below(5000)) * 1_Mbps;
      }
    }
    if (seed > 100) scatter(random, toy);
    const plan::Plan plan = toy_plan(toy);
    const schedule::PipelineShape shape = schedule::shape_of(plan);
    const schedule::Times times = schedule::times_of(plan);
    parts += shape.groups.empty() ? 0 : 1;
    const schedule::Schedule schedule = *schedule::build(plan);
    const sim::Simulation simulation = *sim::simulate(plan, {.iterations = 2});
    // By boundary, direction and first pipeline.
    std::map<std::tuple<int32_t, bool, int32_t>, SimTime> free_at;
    std::map<std::tuple<int32_t, bool, int32_t>, std::vector<schedule::Transfer>> order;
    for (const trace::Interval& interval : simulation.trace.intervals) {
      if (interval.lane != trace::Lane::kLink) continue;
      if (!action::is_communication(interval.action.kind)) continue;  // sums of gradients
      const bool gradient = interval.action.kind == action::ActionKind::kSendGradient;
      const int32_t boundary = interval.action.stage - (gradient ? 1 : 0);
      const int32_t replica = interval.rank % shape.replicas;
      const int32_t first = shape.first_sharer(boundary, replica);
      if (first < 0) continue;
      const std::tuple link{boundary, gradient, first};
      const SimDuration latency = times.latency_over(boundary, replica);
      EXPECT_GE(interval.start, free_at[link]);
      free_at[link] = interval.end - latency;
      if (interval.iteration == 1) order[link].push_back({replica, interval.action.microbatch});
    }
    for (const schedule::LinkOrder& link : schedule.links) {
      if (toy.transfer && toy.transfer->value == 0) continue;  // at once: the Trace orders by rank
      const int32_t first = schedule::sharers_of(link, shape).front();
      EXPECT_EQ(order[std::tuple(link.boundary, link.gradients, first)], link.transfers);
    }
    const sim::Check check = *sim::check_trace(plan, simulation.trace);
    for (const sim::Violation& violation : check.violations) ADD_FAILURE() << violation.text;
    if (!toy.places.empty()) continue;  // sums of gradients cross the WAN, too
    // The simulator rounds the ends of flows up, the longest path to the nearest nanosecond.
    const SimDuration path = schedule::makespan_of(schedule, shape, times);
    const SimTime end = trace::iteration_times(simulation.trace)[0].end;
    if (!toy.path_limit || toy.replicas == toy.cell) {
      EXPECT_NEAR(static_cast<double>(end.ns), static_cast<double>(path.ns), 1000);
    }
  }
  EXPECT_GT(parts, 40);
}

}  // namespace
}  // namespace tombolo
