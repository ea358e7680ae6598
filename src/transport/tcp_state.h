// What the kernel says about a TCP connection, and the one thing it is asked to do.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"

namespace tombolo::transport {

struct TcpState {
  uint64_t acknowledged = 0;   // bytes that the peer's kernel has, ever
  uint64_t unsent = 0;         // bytes that this kernel took and has not sent yet
  uint64_t retransmitted = 0;  // segments, ever
  Seconds round_trip;          // smoothed
};
std::optional<TcpState> read_tcp_state(int socket);

// From now on the kernel takes bytes until so many are unsent, and asks for more below half of it.
void set_unsent_mark(int socket, uint32_t bytes);

// From now on the kernel spreads what a window allows over the round trip, whatever the congestion
// control, instead of sending it at once. Several connections that wake together would otherwise
// throw their windows into one queue and lose a part of them.
void spread_bursts(int socket);

}  // namespace tombolo::transport
