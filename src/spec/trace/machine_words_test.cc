#include "spec/trace/machine_words.h"

#include <gtest/gtest.h>

namespace tombolo::trace {
namespace {

Trace with(std::vector<std::pair<const char*, double>> records) {
  Trace trace;
  for (const auto& [name, value] : records) trace.records.push_back({.name = name, .value = value});
  return trace;
}

TEST(MachineWords, AMachineThatOthersKeptBusy) {
  const auto words =
      machine_words(with({{kCpuBusyRecord, 0.99}, {kOwnBusyRecord, 0.46}, {kTooBusyRecord, 1}}));
  EXPECT_EQ(words.busy_share, 0.99);
  EXPECT_TRUE(words.too_busy);
  EXPECT_EQ(words.line,
            "machine: 99 % busy, 46 % with this run: too busy for this figure to mean anything; "
            "try again when nothing else runs");
}

TEST(MachineWords, AnEmulatedRunSaysInAnyCase) {
  const Trace trace = with({{kCpuBusyRecord, 0.41},
                            {kOwnBusyRecord, 0.12},
                            {kLatenessRecord, 0.002},
                            {kTooBusyRecord, 0},
                            {kRealtimeRecord, 1}});
  EXPECT_EQ(machine_words(trace).line,
            "machine: 41 % busy, 12 % with this run, emulated waits late by 0.2 % of an iteration "
            "at most, real-time scheduling: fine");
  Trace late = with({{kLatenessRecord, 0.03}, {kTooBusyRecord, 1}, {kRealtimeRecord, 1}});
  late.records.push_back({.name = kRealtimeRecord, .rank = 1, .value = 0});
  EXPECT_EQ(machine_words(late).line,
            "machine: emulated waits late by 3.0 % of an iteration at most: too busy for this "
            "figure to mean anything; try a larger run.byte_scale or fewer ranks");
}

TEST(MachineWords, NoneWhereAllWasFineOrNothingWasMeasured) {
  const auto fine = machine_words(with({{kCpuBusyRecord, 0.97}, {kTooBusyRecord, 0}}));
  EXPECT_EQ(fine.line, "");
  EXPECT_FALSE(fine.too_busy);
  EXPECT_EQ(fine.busy_share, 0.97);
  EXPECT_EQ(machine_words({}).line, "");
  EXPECT_FALSE(machine_words({}).busy_share);
}

}  // namespace
}  // namespace tombolo::trace
