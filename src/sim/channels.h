// The law of the channels between ranks: what a message of a Plan crosses, and how fast.
//
// A channel is a directed pair of ranks. It carries one message at a time, in the order of the
// sends; a message has arrived `latency` after its last byte left, and the next one may start when
// the last byte of the one before has left.
//
//   inside a datacenter  its own rate: channels do not meet
//   over the WAN         a flow capped at n window / round trip, which crosses two links: what the
//                        provider lets this pair of nodes have in this direction, and what the path
//                        has for all pairs in this direction. Flows that meet share max-min fairly.
//   [stage_times]        a fixed occupancy and no latency; channels do not meet
//
// A measured rate (profile) stands for cap and node pair alike. Laws: docs/laws/wan_flow.md,
// docs/laws/fair_share.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/time.h"
#include "engine/fair_share.h"
#include "plan/plan.h"

namespace tombolo::sim {

struct ChannelLaw {
  SimDuration latency;                   // rounded to the nearest nanosecond
  std::optional<SimDuration> occupancy;  // rounded; given instead of a flow
  engine::Flow flow;                     // otherwise: its links and its cap
};

struct Channels {
  std::vector<engine::Link> links;
  std::map<std::pair<int32_t, int32_t>, ChannelLaw> laws;  // by (sender, receiver)
};

// The channels between neighbouring stages of each pipeline, both ways.
Channels channels_of(const plan::Plan& plan);

}  // namespace tombolo::sim
