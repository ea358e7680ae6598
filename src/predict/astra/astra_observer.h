// Callbacks with which an AstraMachine reports its run to observers, for drawing or counting.
//
// Observers change nothing and, where there are none, cost nothing. Times do not decrease from call
// to call, except for messages, which are reported when they leave or when they arrive.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "predict/astra/astra_classes.h"
#include "predict/astra/astra_plan.h"
#include "predict/astra/astra_program.h"
#include "predict/astra/astra_system.h"
#include "predict/network/topology.h"

namespace tombolo::astra {

class AstraObserver {
 public:
  // Who is simulated. Simulated ranks are numbered; without classes they are the NPUs.
  struct Cast {
    const network::Topology* topology = nullptr;
    const SystemSettings* settings = nullptr;
    const RankPrograms* workload = nullptr;
    const RankClasses* classes = nullptr;
    bool whole_phases = true;  // messages of phases are not told one by one

    size_t ranks() const { return classes ? classes->first.size() : workload->programs.size(); }
    int32_t npu_of(int32_t rank) const {
      return classes ? classes->first[static_cast<size_t>(rank)] : rank;
    }
  };
  struct Phase {  // of one rank's chunk, in one dimension
    const SharedPhase* shared = nullptr;
    int32_t group = -1;
    uint32_t number = 0;  // of the chunk, among those of its group
    uint32_t node = 0;    // the collective, in the rank's Program
  };
  // Over one hop where links can be busy, else all the way.
  struct Message {
    int32_t origin = 0, to = 0;  // NPUs
    int32_t from = 0;            // that sends over this hop
    size_t dimension = 0;
    int32_t links = 1;   // of NPUs that it takes; 0: the hop leaves a switch
    bool enters = true;  // its first hop along the dimension
    bool of_phase = false;
    int64_t bytes = 0;
    SimTime start, end;
  };

  virtual ~AstraObserver() = default;
  // A run begins. Another may have begun before, and counts for nothing.
  virtual void begins(const Cast& cast) = 0;
  virtual void node_begins(int32_t rank, uint32_t node, SimTime at) = 0;
  virtual void node_ends(int32_t rank, uint32_t node, SimTime at) = 0;
  // The message that a receive asks for has left, now or before; between its begin and its end. Not
  // where everything lasts as long as the trace says.
  virtual void receive_met(int32_t /*rank*/, uint32_t /*node*/, SimTime /*at*/) {}
  // `chunk` is its own as long as it is at work. Not of collectives that are spelled out.
  virtual void phase_begins(int32_t rank, uint32_t chunk, const Phase& phase, SimTime at) = 0;
  virtual void phase_ends(int32_t rank, uint32_t chunk, SimTime at) = 0;
  virtual void message_passes(const Message& message) = 0;
  virtual void rank_ends(int32_t rank, SimTime at) = 0;
};

}  // namespace tombolo::astra
