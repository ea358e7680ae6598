// Which share of its gradients a datacenter sends, so that training does not wait for the line while its
// rate changes (Lim et al., StellaTrain, SIGCOMM 2024, section 4, equation 6).
//
//   r >= 1 - B/m * x/f     r: share that is left out; B: rate of the line; m: bytes of all gradients;
//                          x/f: what an iteration computes
//
// Here with bytes as they are sent. Of an update with density d, d * n bytes cross the line in one iteration,
// n being learned from what came. So the density that takes as long as an iteration computes is
//
//   d = 0.9 * B * computing / n              0.9: plan::kExchangeFill
//
// B is the bytes that came, over the time in which they came. A line that was busy all the time shows its
// rate, so B follows it down at once. One that was idle in between has at least the rate it carried, and B
// follows it up slowly. If messages are too short to measure, the density rises step by step until they are not.
//
// Short messages come in few pieces, and seem to come faster than the line carries. So if updates may be an
// iteration late, a wait is better evidence: the exchange took the time that it could hide behind, plus the wait.
// For a while no higher rate is believed then; afterwards the line is tried again. If a round trip alone takes
// longer than an iteration computes, this drives the density to the lowest.
//
// A density goes down after two iterations that the line held up, or after one that it held up by far; and
// up after several in a row in which a fifth more would have had room. In between it stays, so a line that
// does not change leaves the density alone. Cost: O(1) a report.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/units.h"
#include "steer/tune/tuning_decisions.h"

namespace tombolo::tune {

// An iteration, as the ranks of the slowest stage saw it.
struct LineReport {
  int64_t iteration = 1;
  Seconds computing;  // what it would take if nothing waited for the exchange
  Seconds waited;     // for the exchange, computing nothing; all replicas did
  Bytes came;         // of updates, from other datacenters, at a rank
  Seconds in_flight;  // while some of it was coming
};

class RateController {
 public:
  struct Options {
    double density = 0.01;  // in use when it begins
    double lowest = 0.002;  // 0 < lowest <= density <= highest <= 1
    double highest = 0.05;
    double hides = 1;   // of what an iteration computes, the share that can hide an exchange
    bool late = true;   // updates may be an iteration late: nothing else has to be waited for
    int64_t ahead = 3;  // a decision takes effect this many iterations after the newest report
  };
  explicit RateController(const Options& options);

  // Of iterations in ascending order.
  std::optional<DensityDecision> add(const LineReport& report);

  double density() const { return density_; }
  BytesPerSecond rate() const { return rate_; }  // 0: not known

 private:
  void note_rate(const LineReport& report, bool saturated);
  void note_wait(const LineReport& report);
  void note_bytes(const LineReport& report);
  Seconds budget() const;
  double wanted() const;
  DensityDecision decide(const LineReport& report, double density);

  const Options options_;
  double density_;
  int64_t settled_ = 0;  // reports from this iteration on are of `density_`
  BytesPerSecond rate_;
  BytesPerSecond ceiling_;      // of it, up to
  int64_t ceiling_until_ = 0;   // this iteration
  int waits_ = 0;               // reports in a row
  std::optional<Bytes> whole_;  // bytes of an update of all numbers
  std::deque<Seconds> computing_;
  int held_up_ = 0;  // reports in a row
  int roomy_ = 0;    // the same
  double room_ = 0;  // the least density that was wanted in these
};

}  // namespace tombolo::tune
