// What an Endpoint's links are doing: a snapshot for people and their monitoring.
//
// Counters count since the link came up; goodput is the mean since the snapshot before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "perform/link/message.h"

namespace tombolo::link {

struct ConnectionStatistics {
  int64_t connection = 0;
  bool pulls = true;  // false: idle, because the tuner chose fewer
  std::string congestion_control;
  uint64_t acknowledged_bytes = 0;  // sent, and the peer's kernel has them; frames included
  uint64_t received_bytes = 0;      // that this kernel has from the peer; frames included
  uint64_t retransmits = 0;         // segments
  BytesPerSecond goodput;
  Seconds round_trip;  // TCP's, smoothed
};

struct LinkStatistics {
  int32_t peer = 0;
  bool up = true;       // false: it ended, and what follows is empty
  std::string through;  // "coordinator": both ranks called it (splice.h); empty: a direct link
  bool tuned = false;
  bool exploring = false;
  // Since something came from the peer, over any connection.
  Seconds silence;
  uint64_t losses = 0;             // of connections; the link survived them
  uint64_t unconfirmed_bytes = 0;  // given to connections, and not confirmed yet
  std::string reason;              // why these connections, in words
  std::vector<ConnectionStatistics> connections;
  std::vector<std::pair<Urgency, uint64_t>> queued_bytes;  // not yet taken by the kernel

  int64_t pulling() const;
  uint64_t retransmits() const;
  BytesPerSecond goodput() const;
  Seconds round_trip() const;  // mean of those that pull
};

}  // namespace tombolo::link
