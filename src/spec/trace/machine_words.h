// What a run's Trace says of the machine that it ran on: whether its times can be believed.
//
// The run measures and judges (perform/stage/machine_load.h); every command that prints how far a
// prediction was from it prints the same line.
#pragma once

#include <optional>
#include <string>

#include "spec/trace/trace.h"

namespace tombolo::trace {

// Of the whole run: two shares of all cores' time, a share of an iteration, and 1 or 0. The report
// shows all records that begin with "machine_".
inline constexpr const char* kCpuBusyRecord = "machine_busy_share";
inline constexpr const char* kOwnBusyRecord = "machine_own_share";
inline constexpr const char* kLatenessRecord = "machine_lateness_share";  // of emulated runs alone
inline constexpr const char* kTooBusyRecord = "machine_too_busy";
// Of each emulated rank: 1 or 0.
inline constexpr const char* kRealtimeRecord = "machine_realtime";

struct MachineWords {
  std::optional<double> busy_share;  // of all cores' time; nothing where it was not measured
  bool too_busy = false;
  // "machine: 99 % busy, 46 % with this run: too busy for this figure to mean anything; try again
  // when nothing else runs". Of emulated runs also where it was fine; else empty.
  std::string line;
};
MachineWords machine_words(const Trace& trace);

}  // namespace tombolo::trace
