#include "perform/stage/machine_load.h"

#include <gtest/gtest.h>

#include <map>

#include "support/test_plan.h"

namespace tombolo::stage {
namespace {

using trace::kRealtimeRecord;

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
  const kernels::Lateness waits{.kept = {kMillisecond}, .sum = {2 * kMillisecond}, .waits = 10};
  const kernels::Lateness messages{.sum = {3 * kMillisecond}, .waits = 10};
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
}

TEST(MachineLoad, AQuietMachineIsFine) {
  const plan::Plan plan = make_test_plan({});
  trace::Trace trace = trace_with({{50, 50}, {0.1, 0.2}, {0.1, 0.2}});
  add_records(machine_load(plan, trace, 0.41, 2), trace);
  EXPECT_EQ(trace::machine_words(trace).line,
            "machine: 41 % busy, 0 % with this run, emulated waits late by 0.2 % of an iteration "
            "at most: fine");
}

// Two ranks use 0.5 cores each of two: with real-time scheduling no other process is in their way.
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

class ComputingRanks : public ::testing::Test {
 protected:
  ComputingRanks() {
    for (auto& datacenter : plan_.cluster.datacenters)
      datacenter.device.kind = cluster::DeviceKind::kCpu;
  }
  // The load of four ranks that use `cores_used` cores together.
  MachineLoad load(double cores_used, double cpu_busy, int64_t cores) const {
    trace::Trace trace;
    for (int32_t rank = 0; rank < 4; ++rank)
      trace.records.push_back({.name = kCoresUsedRecord, .rank = rank, .value = cores_used / 4});
    return machine_load(plan_, trace, cpu_busy, cores);
  }

  plan::Plan plan_ = make_test_plan({.stages = 4});
};

TEST_F(ComputingRanks, MoreThanCoresAreANote) {
  const MachineLoad crowded = load(1.96, 0.99, 2);
  EXPECT_FALSE(crowded.too_busy) << "they compute with all there is, and nobody else does";
  EXPECT_EQ(crowded.note(), "machine: 4 ranks compute on 2 cores");
  EXPECT_EQ(load(1.96, 0.99, 4).note(), "");
}

// Two of four cores are theirs, and one and a half went to others: 0.98 - 0.5 of the machine.
TEST_F(ComputingRanks, AreSlowedDownByWhatElseRuns) {
  const MachineLoad disturbed = load(2, 0.98, 4);
  EXPECT_TRUE(disturbed.too_busy);
  EXPECT_DOUBLE_EQ(disturbed.own_busy, 0.5);
  EXPECT_FALSE(load(2, 0.85, 4).too_busy) << "there was room for both";
  EXPECT_FALSE(load(8, 0.98, 4).too_busy) << "some of them are on other hosts";
  EXPECT_FALSE(machine_load(plan_, {}, {}, 2).too_busy) << "nothing was measured";
}

TEST(MachineLoad, TheTraceSaysItToo) {
  const plan::Plan plan = make_test_plan({});
  trace::Trace trace = trace_with({{0, 0}});
  add_records(machine_load(plan, trace, 0.5, 2), trace);
  std::map<std::string, double> records;
  for (const trace::Record& record : trace.records) records[record.name] = record.value;
  records.erase(kLateRecord);
  EXPECT_EQ(records, (std::map<std::string, double>{{trace::kCpuBusyRecord, 0.5},
                                                    {trace::kOwnBusyRecord, 0},
                                                    {trace::kLatenessRecord, 0},
                                                    {trace::kTooBusyRecord, 0}}));
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
}  // namespace tombolo::stage
