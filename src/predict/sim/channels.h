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
//   shared in time       one channel for a boundary, a direction and all pipelines of a DP-cell; it
//                        carries one message at a time in the order that the schedule states, and
//                        waits for the next one. A flow capped at the rate of the cell's nodes
//                        (plan::shared_channel), which crosses the link of the path: the nodes are
//                        the cell's own.
//   [stage_times]        a fixed occupancy and the latency given there; channels do not meet
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
#include "predict/engine/fair_share.h"
#include "spec/graph/graph.h"
#include "spec/plan/plan.h"
#include "spec/schedule/schedule.h"

namespace tombolo::sim {

struct ChannelLaw {
  SimDuration latency;                   // rounded to the nearest nanosecond
  std::optional<SimDuration> occupancy;  // rounded; given instead of a flow
  engine::Flow flow;                     // otherwise: its links and its cap
};

// One that serves the sends of many ranks, in this order.
struct SharedChannel {
  struct Send {
    int32_t rank = 0;
    int64_t node = 0;  // id in the rank's Graph
  };
  ChannelLaw law;
  std::vector<Send> order;
};

struct Channels {
  std::vector<engine::Link> links;
  std::map<std::pair<int32_t, int32_t>, ChannelLaw> laws;  // by (sender, receiver)
  std::vector<SharedChannel> shared;                       // as Schedule::links
};

// The channels between neighbouring stages of each pipeline, both ways; those that a cell shares
// carry nothing yet.
Channels channels_of(const plan::Plan& plan);

// With the sends of these Graphs of this schedule, one iteration after the other, on the shared
// ones.
Channels channels_of(const plan::Plan& plan, const schedule::Schedule& schedule,
                     const graph::Graphs& graphs);

}  // namespace tombolo::sim
