// Leases: permission to work until an instant, renewed by heartbeats.
//
// A member sends a beat that carries the instant of its own clock; the coordinator answers with the
// same instant and a length. The member may work until that instant + length on its own clock; the
// coordinator counts the same length from when it answered, a little stretched for clocks that do
// not run alike. An answer comes after its question, so the coordinator's end is never before the
// member's, however long either message was on its way:
//
//   member        sent ────────── length ──────────┤ stops on its own
//                   \        /
//   coordinator      answered ────── length · (1 + 3 drift) ──────┤ declares it lost
//
// Once the coordinator declares a member lost, that member has stopped, or its clock is broken. No
// clocks are compared, only how fast they run: each by at most a part `drift` = d faster or slower
// than time. A length L of the member's clock lasts at most L / (1 - d); the coordinator waits at
// least L (1 + 3 d) / (1 + d), which is not less for any d <= 1/3.
//
// How long: the law of the adaptive deadline. A lease is `multiple` times the longest gap between
// two beats of this member among the last kGapsKept, but never shorter than `floor` nor longer than
// `ceiling`. By default both are a minute: paths between datacenters are cut for seconds when
// routes change, and TCP may need half as long again to notice that they are back. Only silence
// takes so long to be noticed; a process that ends says so by the end of its connection. A member
// on a quiet path is missed after the floor; one whose beats come in bursts, because its machine or
// its path is busy, is given the time that it was seen to need. (Phi-accrual detectors, Hayashibara
// et al. 2004, assume a distribution; a longest gap needs none.)
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "base/time.h"

namespace tombolo::control {

// No lease is longer, whichever coordinator granted it.
inline constexpr SimDuration kLeaseMax{3'600'000'000'000};

struct LeaseTerms {
  SimDuration beat{500'000'000};        // between two heartbeats of a member
  SimDuration floor{60'000'000'000};    // the shortest lease
  SimDuration ceiling{60'000'000'000};  // the longest; at most kLeaseMax
  double multiple = 8;                  // of the longest gap seen
  double drift = 0.001;                 // of any clock against another; at most 0.2

  Status check() const;
  // How long a coordinator waits after granting `length`.
  SimDuration stretched(SimDuration length) const;
};

// What a member says; `sent` is an instant of its own clock.
struct Beat {
  uint64_t epoch = 0;
  SimTime sent;
};

// What it is answered.
struct Grant {
  uint64_t epoch = 0;
  SimTime sent;          // of the beat
  SimDuration length;    // zero: no lease, stop working
  bool working = false;  // the epoch has begun: all ranks are taken
};

// The coordinator's side, for one member.
class LeaseBook {
 public:
  explicit LeaseBook(const LeaseTerms& terms);

  // The answer's length. What was granted before stays granted: the end never moves back.
  SimDuration renew(SimTime now);
  // Nothing was granted, or all that was is over.
  bool over(SimTime now) const { return now >= end_; }
  SimTime end() const { return end_; }
  SimDuration length() const;  // what the law says now

 private:
  static constexpr size_t kGapsKept = 64;
  LeaseTerms terms_;
  std::array<SimDuration, kGapsKept> gaps_{};  // a ring
  size_t next_ = 0;
  std::optional<SimTime> heard_;
  SimTime end_;
};

// The member's side.
class Lease {
 public:
  explicit Lease(const LeaseTerms& terms);

  // Says that we are there. The next one is due a beat later, or half a beat while no epoch is known
  // yet: all ranks wait for that beat, but none for the renewal of a lease of a minute.
  Beat beat(uint64_t epoch, SimTime now);
  SimTime next_beat() const { return next_beat_; }

  // The answer to one of our beats. One of another life, from the future or longer than kLeaseMax
  // changes nothing. Only the coordinator knows how long a lease is.
  void granted(const Grant& grant, SimTime now);
  bool valid(SimTime now) const { return now < end_; }
  SimTime end() const { return end_; }

 private:
  LeaseTerms terms_;
  SimTime next_beat_;
  SimTime end_;
};

}  // namespace tombolo::control
