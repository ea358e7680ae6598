// A queue and the rate at which it drains, as in front of every bottleneck.
//
// Bytes leave one after the other at a constant rate or along a RateTrace; idle time gives no
// credit. With b bytes handed over since the queue was last empty, at t, the last of them leaves at
//
//   t + b / rate        or, with a trace, when the integral of the rate since t reaches b
//
// to the nearest nanosecond of the busy period's sum, so that rounding does not add up. Segments
// that do not fit when they come are dropped from the end (tail drop). A state machine in virtual
// time: instants must not go back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/time.h"
#include "base/units.h"
#include "spec/cluster/rate_trace.h"

namespace tombolo::wanem {

// Consecutive segments of one frame that travel as one. All segments of a frame have the same size
// but its last.
struct Cargo {
  uint32_t frame = 0;  // the owner's number of the frame
  uint32_t first = 0;  // segments [first, last) of the frame
  uint32_t last = 1;
  uint32_t frame_segments = 1;
  uint32_t segment_bytes = 0;  // headers included
  uint32_t last_bytes = 0;     // of the frame's last segment

  uint32_t count() const { return last - first; }
  uint64_t bytes() const {
    if (first == last) return 0;
    const uint64_t tail = last == frame_segments ? last_bytes : segment_bytes;
    return uint64_t{count() - 1} * segment_bytes + tail;
  }
  // Splits off the first n segments.
  Cargo take(uint32_t n);
  bool operator==(const Cargo&) const = default;
};

class Serialiser {
 public:
  struct Shape {
    std::optional<BytesPerSecond> rate;               // left out: bytes leave at once
    std::shared_ptr<const cluster::RateTrace> trace;  // where given, instead of rate; not empty
    SimTime origin;  // where the trace begins; no instant is before it
    Bytes limit;     // of what waits or is being sent
  };

  // Applies to what comes from `now` on; what waits leaves as it would have.
  void reshape(SimTime now, const Shape& shape);
  bool limited() const { return shape_.rate || shape_.trace; }

  double backlog(SimTime now) const;  // bytes that wait or are being sent
  // How many of these segments fit in the queue; an empty one takes at least one.
  uint32_t admits(SimTime now, const Cargo& cargo) const;
  // How many segments leave in about 0.25 ms, at least 1. The pieces are that small because waiting
  // for the rest of a piece adds to the round trip (pieces of 1 ms cost 3 % of 20 ms).
  uint32_t segments_at_once(SimTime now, const Cargo& cargo) const;
  // When the last of these bytes has left.
  SimTime send(SimTime now, uint64_t bytes);

 private:
  void pass(SimTime now);
  double carried_since_busy(SimTime now) const;

  Shape shape_;
  SimTime now_{INT64_MIN / 4};         // the latest instant
  SimTime busy_since_{INT64_MIN / 4};  // the current busy period,
  uint64_t busy_bytes_ = 0;            // what came in it,
  SimTime free_at_ = busy_since_;      // and when its last byte leaves
  // What waited at the last reshape drains evenly from then until its end, busy_since_.
  double earlier_bytes_ = 0;
  SimTime earlier_since_ = busy_since_;
};

}  // namespace tombolo::wanem
