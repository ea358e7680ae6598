// Progress: ranks that compute for ever, or no more, while their heartbeats go on.
//
// A lease ends when a rank's process is silent. Of a computation that hangs (a thread that was
// stopped, an allocator that tries again for ever, a device that does not answer) no lease knows
// anything: other threads send the heartbeats. So each rank reports every second what it has done,
// and whether it waits (kernels/activity.h). One that has done nothing for kIterationsMax of the
// run's usual iterations, and at least kHangMin, and waits for nobody all the while, has hung.
// Those that wait for it make no progress either, and are not named.
//
// No iteration is usual before all ranks have done one: the first loads libraries and compiles.
// What passes while reports do not come, because a host sleeps or a path is cut, does not count: a
// lease sees to that.
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

  // What `rank` reports now. A line for people when it has hung, and when it goes on again.
  std::optional<std::string> add(int32_t rank, const kernels::Activity::Report& report, SimTime now,
                                 std::optional<Seconds> usual);
  std::optional<Hang> hang(int32_t rank) const;

 private:
  struct Seen {
    int64_t done = 0;
    SimTime since, last;  // of reports that say so without a gap
    std::optional<Hang> hang;
  };

  const plan::Plan& plan_;
  std::map<int32_t, Seen> seen_;  // by rank
};

}  // namespace tombolo::observe
