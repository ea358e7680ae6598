// When the members of a phase are done, under the law `analytical`.
//
// Without congestion a phase depends on nothing but when its members begin, and no member is done
// before all have begun: everyone needs something of everyone (but where may_end_early()). So, once
// the last has begun, the whole phase can be worked out at once, and a simulator handles one event
// per member instead of three per message. Messages one after the other (ring, halving-doubling)
// follow the recurrence
//   t_m(j+1) = max(t_from(j) + transfer, t_m(j)) + bus + reduction,
// the others are played on a small event queue. Both give the times of the state machine
// (phase_state.h) exactly; the property test in tests/property compares them.
// Cost: members * messages for the recurrence, 2 ns each; log(members) more for the others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"
#include "predict/network/collective_phase.h"
#include "predict/network/topology.h"

namespace tombolo::network {

// What a step costs. All NPUs are alike.
struct PhaseCosts {
  const Topology* topology = nullptr;
  size_t dimension = 0;             // that the members lie along
  std::span<const int32_t> places;  // where along it, from the first; empty: all of it
  bool all_npus = false;            // or member m is NPU m
  std::span<const int32_t> ranks;   // or ranks[m]
  bool through_all = false;         // of these two: messages pass every dimension, not the first
  SimDuration bus;                  // from a message's insertion until it is ready
  double memory_bytes_per_ns = 0;   // 0: reductions take no time

  SimDuration transfer(int32_t from, int32_t to, int64_t bytes) const;
  // Two reads and one write, each cut off to a nanosecond.
  SimDuration reduction(int64_t bytes) const;
};

struct MemberEnd {
  SimTime over;
  SimTime known;  // when ASTRA-sim schedules that: its order among events of one instant
  bool operator==(const MemberEnd&) const = default;
};

// starts[m] and ends[m] belong to member m; CHECKs that both have as many as there are members.
void solve_phase(const CollectivePhase& phase, const PhaseCosts& costs,
                 std::span<const SimTime> starts, std::span<MemberEnd> ends);

}  // namespace tombolo::network
