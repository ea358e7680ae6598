// Messages as a fluid: law `fluid` of messages between NPUs.
//
// A message takes its whole route at once (network/route.h): its bytes drain at the max-min fair
// rate of that route (engine/fluid.h), and it has arrived a route's latency after its last byte has
// left (cut through; `congestion` stores it at every hop). Over a WAN it has at most the bandwidth
// of one connection. Source: docs/laws/fluid_network.md.
//
// Rounding: the last byte leaves at a whole nanosecond, rounded up; the latency is cut off to one.
// Cost: that of engine::FluidNetwork, and 64 bytes a link.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "predict/engine/fluid.h"
#include "predict/network/route.h"

namespace tombolo::astra {

class FluidLinks {
 public:
  explicit FluidLinks(const network::Topology& topology);  // which must outlive the links

  void start(SimTime now, uint32_t message, int32_t from, int32_t to, int64_t bytes);

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
  const network::Topology* topology_;
  network::Routes routes_;
  engine::FluidNetwork network_;
  std::unordered_map<engine::FlowId, UnderWay> under_way_;  // looked up, never iterated
};

}  // namespace tombolo::astra
