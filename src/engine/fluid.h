// Flows of bytes that share links as a fluid, in simulated time.
//
// A flow starts with some bytes and drains at its fair share (fair_share.h); whenever one starts or
// ends, the shares of the flows that meet it, directly or through others, are solved again. There
// are no packets and no queues: only rates that change at events.
//
//   FluidNetwork network({Link{5_Gbps}, Link{400_Gbps}});
//   FlowId id = network.start({0}, 10_MB, {.links = {0, 1}, .cap = 600_MBps});
//   network.next_completion();       // 10e6 / 600e6 s: 16 666 667 ns
//   network.finish({16'666'667});    // {{id, 16 666 667 ns}}
//
// Rounding: a completion rounds up to the next whole nanosecond, so a flow is never faster than its
// rate (within a relative 2^-50, which forgives the rounding of the division: 1 MB at 125 MB/s
// takes 8 000 000 ns and not one more). At its completion a flow has delivered exactly its bytes.
// Latency is the caller's: this is about when the last byte has left.
//
// Cost: starting or ending a flow that meets no other costs its links and O(log flows); otherwise
// one fair_shares over the flows it meets.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "engine/fair_share.h"

namespace tombolo::engine {

using FlowId = uint64_t;  // counts from 0 in the order of start()

struct Completion {
  FlowId flow = 0;
  SimTime time;
  bool operator==(const Completion&) const = default;
};

class FluidNetwork {
 public:
  explicit FluidNetwork(std::vector<Link> links);

  // A flow of `bytes` begins at `now`. Time never steps back between calls. Flows that were due by
  // `now` end first, and wait for finish().
  FlowId start(SimTime now, Bytes bytes, Flow flow);

  // When finish() has something to tell if nothing else starts: the end of the next flow, or at
  // once if start() has already passed one. Nothing if there is no flow, or all stand still.
  std::optional<SimTime> next_completion() const;

  // Flows that ended by `now` and were not told before, by time and then by age.
  std::vector<Completion> finish(SimTime now);

  BytesPerSecond rate(FlowId flow) const;  // 0 once it has ended
  size_t active() const { return flows_.size(); }
  Bytes delivered(uint32_t link) const;  // over the link by flows that have ended

 private:
  struct Active {
    Flow flow;
    Bytes bytes;    // what it started with
    Bytes left;     // at `since`
    SimTime since;  // when its rate last changed
    BytesPerSecond rate;
    std::optional<SimTime> due;
  };

  void advance(SimTime now);
  void end(FlowId id);
  void solve(std::vector<FlowId> flows, SimTime now);
  std::vector<FlowId> meeting(const std::vector<uint32_t>& links) const;
  void set_rate(FlowId id, BytesPerSecond rate, SimTime now);

  std::vector<Link> links_;
  std::vector<std::vector<FlowId>> on_link_;  // active flows of each link
  std::vector<Bytes> delivered_;
  std::unordered_map<FlowId, Active> flows_;  // looked up, never iterated
  std::set<std::pair<SimTime, FlowId>> due_;
  std::vector<Completion> finished_;
  FlowId next_id_ = 0;
  SimTime now_;
};

}  // namespace tombolo::engine
