// What a connection carries, and how much of it may be decided in advance.
//
// Bytes that the kernel has taken cannot be overtaken any more. So each connection of a slow link
// takes no more unsent bytes than it sends in its part of 15 ms: half of it as the mark below which
// the kernel asks for more (TCP_NOTSENT_LOWAT), half as the segment that it then gets. The rate is
// that of the bytes which the peer's kernel acknowledged while there was something to send.
//
//   segment = 15 ms of the link's rate / (2 connections), 16 to 256 KiB
//   mark    = 15 ms of the connection's rate, at least 16 KiB; the kernel wakes at half of it
//
// Sum over all connections: 15 ms of the link's rate; on a slow link the lower bounds, which are
// 24 KiB per connection.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "base/units.h"

namespace tombolo::transport {

class GoodputMeter {
 public:
  // At `now` so many bytes were acknowledged, in all. To be called again and again while there is
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
};
Commitment commitment(BytesPerSecond link, BytesPerSecond connection, uint32_t connections);

}  // namespace tombolo::transport
