// Flows of bytes that share links as a fluid, in simulated time.
//
// A flow starts with some bytes and drains at its fair share (fair_share.h); whenever some start or
// end, the shares of the flows that meet them, directly or through others, are solved again. There
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
// Cost: what starts and ends at one instant is solved together, when the caller asks what is next
// or time advances: one solve for each set of flows that meet, and O(log flows) for each flow whose
// rate changes. Flows that meet none of those are not visited.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "predict/engine/fair_share.h"

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
  FluidNetwork(FluidNetwork&&) = default;  // no copies: the solver looks at the links

  // A flow of `bytes` begins at `now`. Time never steps back between calls. Flows that were due by
  // `now` end first, and wait for finish().
  FlowId start(SimTime now, Bytes bytes, Flow flow);

  // When finish() has something to tell if nothing else starts: the end of the next flow, or at
  // once if start() has already passed one. Nothing if there is no flow, or all stand still.
  std::optional<SimTime> next_completion();

  // Flows that ended by `now` and were not told before, by time and then by age.
  std::vector<Completion> finish(SimTime now);

  // From `now` on; what is under way drains at its new share. A link of capacity 0 carries nothing.
  void set_capacity(SimTime now, uint32_t link, BytesPerSecond capacity);

  BytesPerSecond rate(FlowId flow);  // 0 once it has ended
  size_t active() const { return slot_of_.size(); }
  Bytes delivered(uint32_t link) const;  // over the link by flows that have ended

 private:
  struct Active {
    FlowId id = 0;
    Flow flow;
    Bytes bytes;    // what it started with
    Bytes left;     // at `since`
    SimTime since;  // when its rate last changed
    BytesPerSecond rate;
    std::optional<SimTime> due;
    uint64_t seen = 0;  // the last search that met it
  };
  struct Due {  // of the past, if the flow is no longer due then
    SimTime time;
    FlowId id = 0;
    uint32_t slot = 0;
    bool operator>(const Due& other) const {
      return time != other.time ? time > other.time : id > other.id;
    }
  };

  void advance(SimTime now);
  void end(uint32_t slot);
  void settle();             // solves what has changed at this instant
  void meet(uint32_t link);  // met_: all that meet on it, directly or through others
  void solve();              // those met
  void set_rate(Active& active, BytesPerSecond rate);
  const Due* first_due();

  std::vector<Link> links_;
  FairShareSolver solver_;
  std::vector<std::vector<uint32_t>> on_link_;  // slots of each link's flows
  std::vector<Bytes> delivered_;
  std::vector<Active> slots_;
  std::vector<uint32_t> free_;
  std::unordered_map<FlowId, uint32_t> slot_of_;  // looked up, never iterated
  std::vector<Due> due_;                          // a heap, the first on top
  std::vector<Completion> finished_;
  std::vector<uint32_t> changed_;  // links whose flows must be solved
  std::vector<uint32_t> alone_;    // slots of new flows without links
  FlowId next_id_ = 0;
  SimTime now_;
  // Of the search for flows that meet.
  uint64_t search_ = 0;
  std::vector<uint64_t> link_seen_;
  std::vector<uint32_t> open_, met_;
  std::vector<const Flow*> flows_met_;
};

}  // namespace tombolo::engine
