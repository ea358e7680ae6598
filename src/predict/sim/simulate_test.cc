#include "predict/sim/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "predict/sim/interpret.h"
#include "spec/plan/job.h"
#include "spec/schedule/exchange_graph.h"
#include "spec/schedule/schedule.h"
#include "support/test_plan.h"

namespace tombolo::sim {
namespace {

plan::Plan toy_plan(const std::string& schedule, int replicas) {
  const bool line =
      layout::mapping_of(*layout::find_schedule(schedule)) == layout::StageMapping::kLine;
  const std::string text =
      fmt::format(R"(
    [[cluster.datacenter]]
    name = "west"
    device = "a100-80g"
    nodes = {}
    [[cluster.datacenter]]
    name = "east"
    device = "a100-80g"
    nodes = {}
    [[cluster.wan]]
    between = ["west", "east"]
    one_way_latency = "20 ms"
    node_pair_limit = "5 Gbps"
    [training]
    global_batch = {}
    [parallelism]
    pipeline = 4
    data = {}
    schedule = "{}"
    virtual_stages = {}
    [stage_times]
    forward = "3 ms"
    backward = "5 ms"
    recompute = "2 ms"
    transfer = "7 ms"
  )",
                  2 * replicas, 2 * replicas, 6 * replicas, replicas, schedule, line ? 1 : 2);
  return *plan::lay_out(*plan::parse_job(text, "job.toml"));
}

// Fixed occupancies, one pipeline: the simulator and the longest path are two ways to one answer.
TEST(Simulate, EverySchedulesIterationIsItsLongestPath) {
  for (const std::string& name : layout::schedule_names()) {
    const plan::Plan plan = toy_plan(name, 1);
    const Result<Simulation> simulation = simulate(plan);
    ASSERT_TRUE(simulation) << name << ": " << simulation.error().text();
    const trace::Trace path = schedule::evaluate(*schedule::build(plan), schedule::shape_of(plan),
                                                 schedule::times_of(plan));
    EXPECT_EQ(simulation->iteration, schedule::bubble_of(path).makespan) << name;
  }
}

// Replicas do not meet here, and sums of gradients take no time: two pipelines take as long as one,
// iteration after iteration.
TEST(Simulate, ReplicasAndIterationsOfEverySchedule) {
  for (const std::string& name : layout::schedule_names()) {
    if (name == "atlas") continue;  // its pipelines share the WAN
    const Result<Simulation> one = simulate(toy_plan(name, 1));
    const Result<Simulation> two = simulate(toy_plan(name, 2), {.iterations = 3});
    ASSERT_TRUE(two) << name << ": " << two.error().text();
    EXPECT_EQ(trace::iteration_times(two->trace).size(), 3u);
    const auto first = trace::iteration_times(two->trace)[0];
    EXPECT_EQ(first.end - first.start, one->iteration) << name;
  }
}

// Four ranks of two stages each.
TEST(Simulate, VirtualStagesNeedTheirLayout) {
  plan::Plan plan = toy_plan("interleaved", 1);
  EXPECT_EQ(plan.stages.size(), 8u);
  plan.parallelism.schedule = layout::ScheduleKind::k1F1B;
  const Result<Simulation> line = simulate(plan);
  ASSERT_FALSE(line);
  EXPECT_THAT(line.error().text(),
              ::testing::HasSubstr("schedule = \"1f1b\" has one stage per rank"));
  plan = toy_plan("1f1b", 1);
  plan.parallelism.schedule = layout::ScheduleKind::kZbV;
  const Result<Simulation> fold = simulate(plan);
  ASSERT_FALSE(fold);
  EXPECT_THAT(fold.error().text(), ::testing::HasSubstr("virtual_stages = 1"));
}

// One Plan of every kind whose Graph has something of its own: schedules with their sums, several stages
// a rank, sharing in time, pairs of passes, and gradients by messages in every mode.
std::vector<plan::Plan> plans_of_every_kind() {
  std::vector<plan::Plan> plans;
  for (const std::string& name : layout::schedule_names()) {
    for (const int replicas : {1, 2}) plans.push_back(toy_plan(name, replicas));
  }
  plans.push_back(make_test_plan({.replicas = 3, .reduce = "5 ms", .sharing = "temporal"}));
  plans.push_back(make_test_plan(
      {.microbatches = 4, .pair = "2 ms", .schedule = "dualpipev", .virtual_stages = 2}));
  for (const plan::Exchange& exchange :
       std::vector<plan::Exchange>{{},
                                   {.overlap = false},
                                   {.mode = plan::ExchangeMode::kSparse},
                                   {.mode = plan::ExchangeMode::kSparse, .staleness = 0},
                                   {.mode = plan::ExchangeMode::kLocal, .steps = 3},
                                   {.mode = plan::ExchangeMode::kLocal, .steps = 3, .delay = 2},
                                   {.mode = plan::ExchangeMode::kLocal, .steps = 4, .fragments = 2},
                                   {.mode = plan::ExchangeMode::kSparseLocal, .steps = 3}}) {
    for (const int stages : {1, 2}) {
      plans.push_back(
          make_test_plan({.stages = stages, .replicas = 3, .ring = true, .apart = true}));
      plans.back().exchange = exchange;
    }
  }
  return plans;
}

// The simulator validates one iteration and plays many: what repeats a sound graph must be sound, whichever
// outer steps are left out.
TEST(Simulate, RepeatedGraphsAreAsSoundAsOne) {
  int64_t left_out = 0, collectives = 0, carrying = 0, co_executed = 0;
  for (const plan::Plan& plan : plans_of_every_kind()) {
    const Result<schedule::Schedule> schedule = schedule::build(plan);
    ASSERT_TRUE(schedule) << schedule.error().text();
    const graph::Graphs once = schedule::to_graph(plan, *schedule);
    ASSERT_TRUE(graph::validate(once)) << graph::validate(once).error().text();
    const schedule::detail::OuterCalendar calendar(plan);
    for (const int64_t times : {1, 2, 9}) {
      const graph::Graphs graphs = repeat(once, times, [&](const graph::Node& node, int64_t i) {
        left_out += calendar.leaves_out(node, i) ? 1 : 0;
        return calendar.leaves_out(node, i);
      });
      const Status sound = graph::validate(graphs);
      ASSERT_TRUE(sound) << times << " times " << to_name(plan.parallelism.schedule) << ": "
                         << sound.error().text();
      for (size_t r = 0; r < once.size(); ++r) {
        ASSERT_EQ(graphs[r].nodes.size(), once[r].nodes.size() * static_cast<size_t>(times));
      }
    }
    for (const graph::Graph& graph : once) {
      for (const graph::Node& node : graph.nodes) {
        collectives += node.type == graph::NodeType::kCollective ? 1 : 0;
        carrying += node.details->carried_deps.empty() ? 0 : 1;
        co_executed += node.details->co_executed_with ? 1 : 0;
      }
    }
  }
  // The Plans have what could go wrong.
  EXPECT_GT(left_out, 0);
  EXPECT_GT(collectives, 0);
  EXPECT_GT(carrying, 0);
  EXPECT_GT(co_executed, 0);
}

}  // namespace
}  // namespace tombolo::sim
