// Detects ranks that hang in a computation while their heartbeats continue.
//
// A lease ends when a rank's process is silent. It does not detect a computation that hangs (a
// thread that was stopped, an allocator that retries for ever, a device that does not answer),
// because other threads send the heartbeats. So each rank reports every second what it has done,
// and whether it waits (kernels/activity.h). A rank has hung if it has done nothing for
// kIterationsMax of the run's usual iterations, and at least kHangMin, and never waited in that
// time. Ranks that wait for it make no progress either, and are not named.
//
// There is no usual iteration before all ranks have done one: the first loads libraries and
// compiles. Time in which no reports arrive, because a host sleeps or a path is cut, does not
// count: leases cover that.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "base/units.h"
#include "perform/kernels/activity.h"
#include "spec/plan/plan.h"

namespace tombolo::observe {

inline constexpr SimDuration kHangMin{30'000'000'000};
inline constexpr int64_t kIterationsMax = 10;

struct Hang {
  SimTime since;  // of the launcher's clock
  Seconds usual;  // the run's iteration
};
// "rank 0 (oregon) has made no progress for 41 s (...)".
std::string hang_text(const std::string& rank, const Hang& hang, SimTime now);

class ProgressWatch {
 public:
  explicit ProgressWatch(const plan::Plan& plan) : plan_(plan) {}

  // Adds what `rank` reports now. Returns a line for people when it has hung, and when it
  // continues.
  std::optional<std::string> add(int32_t rank, const kernels::Activity::Report& report, SimTime now,
                                 std::optional<Seconds> usual);
  std::optional<Hang> hang(int32_t rank) const;

 private:
  struct Seen {
    int64_t done = 0;
    SimTime since, last;  // first and last report with this `done`, without a gap
    std::optional<Hang> hang;
  };

  const plan::Plan& plan_;
  std::map<int32_t, Seen> seen_;  // by rank
};

}  // namespace tombolo::observe
