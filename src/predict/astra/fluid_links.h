// Messages as a fluid: law `fluid` of messages between NPUs.
//
// A message takes its whole route at once (network/route.h): its bytes drain at the max-min fair
// rate of that route (engine/fluid.h), and it has arrived a route's latency after its last byte has
// left (cut through; `congestion` stores it at every hop). Over a WAN it has at most the bandwidth
// of one connection. Source: docs/laws/fluid_network.md.
//
// Of ranks that do the same at the same times one is simulated (astra_classes.h), and its messages
// stand for those of its class: a link is that of the rank that stands for its owner. Rates are then
// those that all would have, if every member's link carries as many messages of each kind: so it is
// over one switch, between ranks that the classes match one to one, and around a ring of which every
// NPU takes part; and over a link of two NPUs while nothing but one group, or no group, uses it.
// start() refuses anything else.
//
// Rounding: the last byte leaves at a whole nanosecond, rounded up; the latency is cut off to one.
// Cost: that of engine::FluidNetwork, and 64 bytes a link.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "predict/astra/astra_classes.h"
#include "predict/astra/message_law.h"
#include "predict/engine/fluid.h"
#include "predict/network/route.h"

namespace tombolo::astra {

class FluidLinks {
 public:
  // Both must outlive the links. classes: null where every rank is simulated.
  explicit FluidLinks(const network::Topology& topology, const RankClasses* classes = nullptr);

  // False, and nothing starts: the message cannot stand for those of its class.
  bool start(SimTime now, uint32_t message, int32_t from, int32_t to, int64_t bytes,
             const MessageCause& cause);

  // When the next last byte leaves if nothing else starts.
  std::optional<SimTime> next() { return network_.next_completion(); }

  struct Left {
    uint32_t message = 0;
    SimTime arrives;
  };
  // Messages whose last byte has left by `now` and that were not told before, by the time they left
  // and then by the order of their starts.
  std::vector<Left> finish(SimTime now);

 private:
  struct UnderWay {
    uint32_t message = 0;
    SimDuration latency;
  };
  std::optional<uint32_t> link_for(network::Routes::Place at, const network::Routes::Hop& hop,
                                   int32_t from, const MessageCause& cause);

  const network::Topology* topology_;
  const RankClasses* classes_;
  network::Routes routes_;
  engine::FluidNetwork network_;
  std::unordered_map<engine::FlowId, UnderWay> under_way_;  // looked up, never iterated
  std::unordered_map<int64_t, int32_t> group_on_;           // by link of two NPUs; the same
};

}  // namespace tombolo::astra
