#include "predict/sim/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/plan/job.h"
#include "spec/schedule/schedule.h"

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

}  // namespace
}  // namespace tombolo::sim
