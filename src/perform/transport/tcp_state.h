// What the kernel says about a TCP connection, and the one thing it is asked to do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/units.h"

namespace tombolo::transport {

struct TcpState {
  uint64_t acknowledged = 0;  // bytes that the peer's kernel has, ever
  // The same plus what it has beyond a gap. After a loss `acknowledged` stands still and then
  // leaps; this does not.
  uint64_t delivered = 0;
  uint64_t received = 0;       // bytes that this kernel has from the peer without a gap, ever
  uint64_t unsent = 0;         // bytes that this kernel took and has not sent yet
  uint64_t retransmitted = 0;  // segments, ever
  Seconds round_trip;          // smoothed
};
std::optional<TcpState> read_tcp_state(int socket);

// "cubic". Empty where the kernel does not say.
std::string congestion_control_of(int socket);
// Of a live socket too; false where the kernel does not know it. What the connection learnt of the
// path (its window) stays.
bool set_congestion_control(int socket, const std::string& name);
// The same, and the connection searches for its rate as if it were new: BBR's startup, the others'
// slow start. Initialising BBR starts both, so BBR is set first where the kernel has it.
bool restart_congestion_control(int socket, const std::string& name);
// What this kernel has, in its order; empty where it does not say.
std::vector<std::string> available_congestion_controls();

// From now on the kernel takes bytes until `bytes` are unsent, and asks for more below half of
// that.
void set_unsent_mark(int socket, uint32_t bytes);

// From now on the kernel ends the connection when what it sent is not acknowledged for `most`.
void set_user_timeout(int socket, SimDuration most);

// From now on the kernel spreads what a window allows over the round trip, whatever the congestion
// control, instead of sending it at once. Several connections that wake together would otherwise
// throw their windows into one queue and lose a part of them.
void spread_bursts(int socket);

}  // namespace tombolo::transport
