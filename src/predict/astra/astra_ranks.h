// AstraRanks: ranks at work off their Programs.
//
// A node starts when its dependencies are done and its resource is free. A rank has one host, one
// accelerator and one communicator; receives take none. Lowest id first. Computations end by an
// alarm; every other node is handed to the part that knows its kind.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "predict/astra/astra_collectives.h"
#include "predict/astra/astra_memory.h"
#include "predict/astra/astra_messages.h"
#include "predict/astra/machine_common.h"

namespace tombolo::astra {

// What one rank did. Times of a kind are unions of intervals: what overlaps counts once.
struct RankReport {
  SimTime finish;
  SimDuration host, accelerator, communication;
  SimDuration memory;     // remote, from when it is asked for until the access is over
  SimDuration computing;  // sum over computations of the accelerator
  // Weighted by the duration of computations by roofline.
  double compute_bound = 0, compute_utilization = 0, memory_utilization = 0, intensity = 0;
  // Whether it had such nodes, though they may have taken no time.
  bool uses_host = false, uses_accelerator = false, communicates = false, uses_memory = false;

  // For how long it both computed and communicated. Only for a rank that does nothing else, because
  // such a rank is finished once it has nothing under way; ASTRA-sim reports it for no other rank.
  std::optional<SimDuration> overlap() const {
    if (!uses_accelerator || !communicates || uses_host || uses_memory) return std::nullopt;
    return std::max(accelerator + communication - (finish - SimTime{}), SimDuration{});
  }
};

class AstraRanks : public NodeEnds {
 public:
  AstraRanks(Common& common, AstraCollectives& collectives, AstraMessages& messages,
             AstraMemory& memory);

  void begin();                                          // what each can start at first
  void node_over(int32_t rank, uint32_t node) override;  // and what this frees starts

  // When nothing happens any more. Failed, naming a rank and a node: some rank is not done.
  Result<std::vector<RankReport>> reports();

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  enum Resource : uint8_t { kHost, kAccelerator, kCommunicator, kNoResource, kResources };
  static Resource resource_of(const Program::Node& node);

  // A heap of nodes that could start, the lowest on top.
  using Ready = std::vector<uint32_t>;

  // How long at least one of several things was under way.
  struct Busy {
    int32_t now = 0;
    bool ever = false;
    SimTime since;
    SimDuration total;
    void begin(SimTime t) {
      ever = true;
      if (now++ == 0) since = t;
    }
    void end(SimTime t) {
      if (--now == 0) total += t - since;
    }
  };

  struct Rank {
    const Program* program = nullptr;
    std::vector<uint32_t> waiting_for;  // per node: dependencies that are not done
    Ready ready[kResources];
    std::vector<uint32_t> freed;  // while nodes are being started: those freed meanwhile
    bool taken[kResources] = {};
    bool starting = false, finished = false;
    uint32_t in_flight = 0;
    uint32_t left = 0;  // nodes that are not done
    Busy host, accelerator, communication, memory;
    RankReport report;
  };

  void wake(int32_t rank);  // start what can be started; has it finished?
  void start_ready(int32_t rank);
  void start(int32_t rank, uint32_t node);
  void compute(int32_t rank, uint32_t node);
  void release(int32_t rank, uint32_t node);
  void make_ready(Rank& rank, uint32_t node);
  Busy* busy_of(Rank& rank, const Program::Node& node);
  Error stuck() const;

  Common& common_;
  AstraCollectives& collectives_;
  AstraMessages& messages_;
  AstraMemory& memory_;
  std::vector<Rank> ranks_;
};

}  // namespace tombolo::astra
