// The law of the channels between ranks: what a message of a Plan crosses, and how fast.
//
// A channel is a directed pair of ranks. It carries one message at a time, in the order of the
// sends; a message has arrived `latency` after its last byte left, and the next one may start when
// the last byte of the one before has left.
//
//   inside a datacenter  a flow capped at the rate of its fabric, which crosses the ports (or the
//                        cards) of both ranks' devices
//   over the WAN         a flow capped at n window / round trip, which crosses the cards of both
//                        ranks, what the provider lets this pair of nodes have in this direction,
//                        and what the path has for all pairs in this direction
//   shared in time       one channel for a boundary, a direction and all pipelines of a DP-cell that
//                        cross it alike; it carries one message at a time in the order that the
//                        schedule states, and waits for the next one. A flow of which every pipeline
//                        that shares it carries an equal part over its own pair of nodes
//   exchanges            the messages of replicas in several datacenters, and of the ends of a pipeline
//                        that hold copies of a tied embedding: as above, by pair of ranks
//   gradient all-reduce  within a datacenter; a flow for each rank, capped so that alone it takes
//                        what its law says; it crosses the ports and the cards of the rank's devices
//   [stage_times]        a fixed occupancy and the latency given there; channels do not meet
//
// Flows that meet on a resource (spec/plan/resources.h) share it max-min fairly, whichever ranks
// send them; a shared flow counts once per pipeline that carries it. A measured rate (profile)
// replaces both the cap and the limit of the node pair. What a pair of nodes may have can follow a
// trace of rates (set_rates). Laws: docs/laws/wan_flow.md, docs/laws/fair_share.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/time.h"
#include "predict/engine/fair_share.h"
#include "spec/cluster/rate_trace.h"
#include "spec/graph/graph.h"
#include "spec/plan/plan.h"
#include "spec/schedule/schedule.h"

namespace tombolo::sim {

struct ChannelLaw {
  SimDuration latency;                   // rounded to the nearest nanosecond
  std::optional<SimDuration> occupancy;  // rounded; given instead of a flow
  engine::Flow flow;                     // otherwise: its links and its cap
  int64_t unit = 0;  // bytes that take the occupancy, others in proportion; 0: any
};

// One that serves the sends of many ranks, in this order.
struct SharedChannel {
  struct Send {
    int32_t rank = 0;
    int64_t node = 0;     // id in the rank's Graph
    size_t pipeline = 0;  // of those that share it, as in flows
  };
  ChannelLaw law;
  // By pipeline, instead of law.flow: the sender's card scatters all of a message, the receiver's
  // gathers it, the others carry their parts.
  std::vector<engine::Flow> flows;
  std::vector<Send> order;
};

// A link whose capacity follows a trace, from the beginning of the simulation on.
struct ChangingLink {
  uint32_t link = 0;
  const cluster::RateTrace* rates = nullptr;
};

struct Channels {
  std::vector<engine::Link> links;  // the Plan's resources, in the order of plan::Resources
  std::map<std::pair<int32_t, int32_t>, ChannelLaw> laws;  // by (sender, receiver)
  std::vector<SharedChannel> shared;                       // as Schedule::links
  // By rank: what its part of a gradient all-reduce crosses, for each byte that the node names; the
  // cap follows from how long the node lasts alone. No entry for ranks whose all-reduces load nothing.
  std::map<int32_t, engine::Flow> sums;
  std::vector<std::optional<size_t>> wan_of;  // by link: of which WAN link it is a node pair
  std::vector<ChangingLink> changing;         // set_rates
};

// The channels between neighbouring stages of each pipeline, both ways, between replicas that
// exchange gradients, and between tied ends; those that are shared carry nothing yet.
Channels channels_of(const plan::Plan& plan);

// With the sends of these Graphs of this schedule, one iteration after the other, on the shared
// ones.
Channels channels_of(const plan::Plan& plan, const schedule::Schedule& schedule,
                     const graph::Graphs& graphs);

// The Plan as one whose WAN links carry as much as their traces ever do: what caps a flow is not the rate of
// its pair of nodes then. `rates` are of plan.cluster.wan, in its order; an empty trace is a rate that stays.
plan::Plan with_highest_rates(plan::Plan plan, std::span<const cluster::RateTrace> rates);
// Lets the node pairs follow these traces, which outlive the channels.
void set_rates(std::span<const cluster::RateTrace> rates, Channels& channels);

}  // namespace tombolo::sim
