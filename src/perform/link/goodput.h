// How much a connection carries, and how much of that may be committed in advance.
//
// Bytes that the kernel has taken cannot be overtaken any more. So each connection of a slow link
// takes no more unsent bytes than it sends in its part of 15 ms: half of it as the mark below which
// the kernel asks for more (TCP_NOTSENT_LOWAT), half as the segment that it then gets. The rate is
// that of the bytes which the peer's kernel acknowledged while there was something to send.
//
//   segment = 15 ms of the link's rate / (2 connections), 8 to 256 KiB
//   mark    = 15 ms of the connection's rate, at least 8 KiB; the kernel wakes at half of it
//   tail    = 2 segments per connection if this one has less than a quarter of the best one's rate
//
// Sum over all connections: 15 ms of the link's rate; on a slow link the lower bounds, which are
// 12 KiB per connection. A message is there when its last segment is, so a slow connection (after a
// loss, mostly) leaves the tail of a message to the others.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "base/units.h"

namespace tombolo::link {

class GoodputMeter {
 public:
  // `acknowledged`: bytes acknowledged in all, at `now`. To be called repeatedly while there is
  // something to send; calls less than 20 ms after the last sample change nothing.
  void sample(SimTime now, uint64_t acknowledged);
  // There is nothing to send: the time until the next bytes are acknowledged says nothing about the
  // path.
  void pause();
  bool due(SimTime now) const;

  BytesPerSecond rate() const { return rate_; }  // 0 before the first 20 ms

 private:
  std::optional<SimTime> since_;
  bool silent_ = true;  // nothing was acknowledged since the pause
  uint64_t acknowledged_ = 0;
  BytesPerSecond rate_;
};

struct Commitment {
  uint32_t segment_max = 0;  // bytes
  uint32_t mark = 0;         // bytes
  uint64_t tail = 0;         // bytes
};
// One of `connections`, which have `link` together, of which the best has `best`.
struct LinkRates {
  uint32_t connections = 1;
  BytesPerSecond link;
  BytesPerSecond best;
};
Commitment commitment(const LinkRates& rates, BytesPerSecond connection);

}  // namespace tombolo::link
