// The pacing shim: a link of a given rate and delay, without privileges and without a clock inside.
//
// The law: a message of B bytes, handed over at t to an idle link, is there at t + B / rate +
// delay; messages handed over earlier go first. Simulator and shim obey the same law, so a
// prediction over a paced link can be compared with a measurement (docs/laws/wan_pacing.md).
//
// How: a Pacer serialises chunks as a link of exactly that rate would. Each chunk gets the ideal
// instants at which its first byte enters and its last byte leaves the link. The sender writes a
// chunk at `begin` or as soon after as it wakes, and stamps it with `end`; the receiver holds it
// until end + delay. Thus a late timer neither slows the link nor adds up, as long as a chunk gets
// through within its own serialisation time plus the delay. Only payload is charged, not headers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"

namespace tombolo::link {

// How a link is to behave, in the direction of sending and receiving alike.
struct LinkShape {
  std::optional<BytesPerSecond> rate;  // none: as fast as the host goes
  SimDuration delay;                   // one way, added to every message
  // Not paced, yet slow: the network itself is the link. Then the kernel keeps little that was not
  // sent, so that a segment is taken when its bytes can really leave (goodput.h).
  bool slow_network = false;
  // TCP connections, 1 to 16. The side that dials decides; the other goes along.
  uint32_t connections = 1;
  // TCP's congestion control of this link's connections, in the direction of sending; empty: the
  // Endpoint's.
  std::string congestion_control;
  // Of a slow network: how many of the connections pull, and their congestion control, are chosen
  // from what is measured (link_tuner.h).
  bool tune_connections = false;
  bool tune_congestion_control = false;
  bool tuned() const { return slow_network && (tune_connections || tune_congestion_control); }

  Status check() const;
  // What one frame carries: about 1 ms of the rate between 16 and 256 KiB, the maximum unpaced.
  uint32_t segment_max() const;
};

// The instants at which a chunk's first byte enters and its last byte leaves the link.
struct Slot {
  SimTime begin;
  SimTime end;
  bool operator==(const Slot&) const = default;
};

class Pacer {
 public:
  explicit Pacer(BytesPerSecond rate);

  // The slot of the next chunk, of which all bytes are there at `available`: at once on an idle
  // link, after the others on a busy one. Idleness earns no credit. Ends are rounded to the nearest
  // nanosecond of the busy period's sum, so that rounding does not add up either.
  Slot take(SimTime available, uint64_t bytes);
  // When what was taken so far has left: nothing begins before.
  SimTime free_at() const { return busy_until_; }

 private:
  BytesPerSecond rate_;
  SimTime busy_since_;       // the current busy period,
  uint64_t busy_bytes_ = 0;  // what it carried,
  SimTime busy_until_;       // and where its last chunk ends
};

// The delay line at the receiver: when a chunk that left at `departed` and came at `arrived` is
// handed on. In order, because departures and arrivals are.
SimTime delivery(SimTime departed, SimTime arrived, SimDuration delay);

}  // namespace tombolo::link
