#include "perform/runtime/machine_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/test_plan.h"

namespace tombolo::runtime {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMillisecond = 1'000'000;

// Three iterations of 100 ms on rank 0; lateness of two ranks in each.
trace::Trace trace_with(const std::vector<std::array<double, 2>>& late_ms) {
  trace::Trace trace;
  int64_t iteration = 0;
  for (const auto& late : late_ms) {
    ++iteration;
    trace.intervals.push_back({.iteration = iteration,
                               .start = {iteration * 100 * kMillisecond},
                               .end = {(iteration + 1) * 100 * kMillisecond}});
    for (int32_t rank = 0; rank < 2; ++rank) {
      trace.records.push_back({kLateRecord, iteration, rank, {}, late[rank] / 1000});
    }
  }
  return trace;
}

// Waits: 1 ms was kept, the mean of 10 was 0.2 ms late; messages 0.3 ms. A pipeline of 3 stages
// fills over 2 hops and drains over 2: 1 + 4 x 0.5 ms.
TEST(MachineLoad, LatenessIsWhatNobodyMakesUpFor) {
  const Lateness waits{.kept = {kMillisecond}, .sum = {2 * kMillisecond}, .waits = 10};
  const Lateness messages{.sum = {3 * kMillisecond}, .waits = 10};
  EXPECT_DOUBLE_EQ(lateness_of_iteration(waits, messages, 3).value, 0.003);
  EXPECT_DOUBLE_EQ(lateness_of_iteration(waits, {}, 1).value, 0.001);
  EXPECT_EQ(lateness_of_iteration({.kept = {-kMillisecond}}, {}, 1).value, 0)
      << "early is not late";
}

// The first iteration warms up. The worst ranks' 1, 5 and 3 ms of 100: 3 % in the middle.
TEST(MachineLoad, TheWorstRankOfTheMiddleIterationCounts) {
  const plan::Plan plan = make_test_plan({});
  const trace::Trace trace = trace_with({{50, 50}, {0.5, 1}, {5, 0}, {2, 3}});
  const MachineLoad load = machine_load(plan, trace, 0.41, 2);
  EXPECT_DOUBLE_EQ(load.lateness, 0.03);
  EXPECT_TRUE(load.too_busy);
  EXPECT_THAT(load.brief(), HasSubstr("too busy for this figure to mean anything; try a larger "
                                      "run.byte_scale or fewer ranks"));
}

TEST(MachineLoad, AQuietMachineIsFine) {
  const plan::Plan plan = make_test_plan({});
  trace::Trace trace = trace_with({{50, 50}, {0.1, 0.2}, {0.1, 0.2}});
  EXPECT_EQ(machine_load(plan, trace, 0.41, 2).brief(),
            "machine: 41 % busy, 0 % with this run, emulated waits late by 0.2 % of an iteration "
            "at most: fine");
  for (int32_t rank = 0; rank < 2; ++rank) {
    trace.records.push_back({.name = kRealtimeRecord, .rank = rank, .value = 1});
  }
  EXPECT_EQ(machine_load(plan, trace, {}, 2).brief(),
            "machine: 0 % with this run, emulated waits late by 0.2 % of an iteration at most, "
            "real-time scheduling: fine");
}

// Two ranks use 0.5 cores each of two: with real-time scheduling nobody else is in their way.
TEST(MachineLoad, OthersGiveWayToRealtimeRanks) {
  const plan::Plan plan = make_test_plan({});
  trace::Trace trace = trace_with({{0, 0}});
  EXPECT_TRUE(machine_load(plan, trace, 0.95, 2).too_busy);
  for (int32_t rank = 0; rank < 2; ++rank) {
    trace.records.push_back({.name = kRealtimeRecord, .rank = rank, .value = 1});
    trace.records.push_back({.name = kCoresUsedRecord, .rank = rank, .value = 0.5});
  }
  const MachineLoad load = machine_load(plan, trace, 0.95, 2);
  EXPECT_FALSE(load.too_busy);
  EXPECT_DOUBLE_EQ(load.own_busy, 0.5);
  EXPECT_TRUE(machine_load(plan, trace, 0.95, 1).too_busy) << "they fill the one core";
}

// Real kernels compute with all there is: a note, and no verdict.
TEST(MachineLoad, MoreComputingRanksThanCoresIsANote) {
  plan::Plan plan = make_test_plan({.stages = 4});
  for (auto& datacenter : plan.cluster.datacenters) {
    datacenter.device.kind = cluster::DeviceKind::kCpu;
  }
  const MachineLoad load = machine_load(plan, {}, 0.99, 2);
  EXPECT_FALSE(load.too_busy);
  EXPECT_TRUE(load.worth_a_line());
  EXPECT_EQ(load.brief(), "machine: 4 ranks compute on 2 cores");
  EXPECT_FALSE(machine_load(plan, {}, 0.99, 4).worth_a_line());
}

TEST(MachineLoad, TheTraceSaysItToo) {
  const plan::Plan plan = make_test_plan({});
  trace::Trace trace = trace_with({{0, 0}});
  add_records(machine_load(plan, trace, 0.5, 2), trace);
  ASSERT_EQ(trace.records.size(), 5u);
  EXPECT_EQ(trace.records[0].name, kCpuBusyRecord);
  EXPECT_EQ(trace.records[0].value, 0.5);
  EXPECT_EQ(trace.records[1].name, kLatenessRecord);
  EXPECT_EQ(trace.records[2].name, kTooBusyRecord);
  EXPECT_EQ(trace.records[2].value, 0);
}

// user 100, nice 5, system 20, idle 300, iowait 7, irq 1, softirq 2, steal 10; guest is in user.
TEST(CpuTimes, AreReadFromProcStat) {
  const auto times = parse_cpu_times("cpu  100 5 20 300 7 1 2 10 50 0\ncpu0 1 2 3 4\n");
  ASSERT_TRUE(times);
  EXPECT_EQ(times->busy, 138u);
  EXPECT_EQ(times->all, 445u);
  EXPECT_FALSE(parse_cpu_times(""));
  EXPECT_FALSE(parse_cpu_times("cpu 1 2 x\n"));
  EXPECT_FALSE(parse_cpu_times("intr 1 2 3 4\n"));
}

TEST(MachineLoadDeathTest, FiguresArePossible) {
  EXPECT_DEATH(lateness_of_iteration({}, {}, 0), "a pipeline of 0 stages");
  EXPECT_DEATH(machine_load(make_test_plan({}), {}, 1.5, 2), "1.5 of all cores' time was used");
}

}  // namespace
}  // namespace tombolo::runtime
