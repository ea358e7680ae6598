// Whether the machine was fast enough for what it was asked to emulate: a run checks itself.
//
// An emulated figure is meaningful as long as waits end, and messages wake their receivers, about
// when they should. Two measurements decide, both over the run itself:
//
//   lateness   what the emulated ranks lost to the machine in an iteration, as a share of it. Waits
//              that took longer than planned and were not made up for by the next one; and for each
//              of the 2 (stages - 1) hops of a pipeline's fill and drain one mean wait's and one
//              mean message's lateness, because there the next wait is another rank's.
//   cpu busy   share of all cores' time that was not idle, whatever process used it (/proc/stat);
//              with real-time scheduling only what the ranks used, because others give way to them.
//
// Beyond 2 % of lateness the machine is a visible part of the figure: predictions must be within
// 10 %, and a fifth of that is what the emulation may cost. Beyond 90 % busy another process is
// nearly always in the way of a rank that is due, queues form, and the lateness that was seen says
// little about the next run.
//
// Ranks that really compute have no such lateness, and may well fill the machine themselves. With
// them it is too busy if more than 90 % of it was, and a tenth went to other processes. Ranks on
// other hosts count as ranks of this one, so a run on several hosts may be disturbed without being
// reported. More computing ranks than cores are worth a note.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/value.h"
#include "perform/kernels/kernels.h"
#include "spec/plan/plan.h"
#include "spec/trace/machine_words.h"
#include "spec/trace/trace.h"

namespace tombolo::stage {

inline constexpr double kLatenessShareMax = 0.02;
inline constexpr double kCpuBusyMax = 0.90;
inline constexpr double kOthersShareMax = 0.10;

// Records of a Trace, in addition to those of the whole run (spec/trace/machine_words.h). Of
// emulated ranks: seconds per iteration; of all ranks: how many cores each used.
inline constexpr const char* kLateRecord = "machine_late_s";
inline constexpr const char* kCoresUsedRecord = "machine_cores_used";

struct MachineLoad {
  bool emulated = false;           // any rank
  double lateness = 0;             // share of an iteration: its worst rank's; the middle iteration
  std::optional<double> cpu_busy;  // share; nothing where it could not be measured
  double own_busy = 0;             // of it the ranks
  bool realtime = false;           // all emulated ranks ran under SCHED_FIFO
  int64_t ranks = 0;
  int64_t cores = 0;
  bool too_busy = false;

  // "machine: 4 ranks compute on 2 cores"; empty where there are enough, or none compute.
  std::string note() const;
  Value::Table table() const;  // for JSON
};

// What the lateness of waits and messages costs one rank's iteration.
Seconds lateness_of_iteration(const kernels::Lateness& waits, const kernels::Lateness& messages,
                              int64_t stages);

// From the records of the merged Trace, the first iteration left out where there are more, and what
// the launcher measured.
MachineLoad machine_load(const plan::Plan& plan, const trace::Trace& trace,
                         std::optional<double> cpu_busy, int64_t cores);

// Adds the load to the records of the Trace.
void add_records(const MachineLoad& load, trace::Trace& trace);

// All cores' time so far, in the kernel's ticks of 10 ms.
struct CpuTimes {
  uint64_t busy = 0;  // also what a hypervisor took
  uint64_t all = 0;
};
Result<CpuTimes> parse_cpu_times(std::string_view proc_stat);

// The share of all cores' time that is used from its creation on.
class CpuMeter {
 public:
  CpuMeter();
  // Nothing where /proc/stat is missing, or less than a tenth of a second of all cores passed.
  std::optional<double> busy() const;

 private:
  std::optional<CpuTimes> begin_;
};

// How many cores' time this process uses from the meter's creation on, all threads together.
class ProcessMeter {
 public:
  ProcessMeter();
  double cores() const;

 private:
  SimTime cpu_begin_, begin_;
};

}  // namespace tombolo::stage
