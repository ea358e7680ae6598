// AstraLedger: where the time of every simulated rank went, and what it sent along each dimension.
//
// Exposed time is summed up during the run: when something begins or ends, the time since the last
// such moment goes to the first cause that was under way (trace/exposed.h). A receive communicates
// from when its message has left; before, the rank is idle: a pipeline's bubble. What a phase of a
// collective sends follows from its algorithm, so nothing is counted message by message where
// phases are worked out as a whole. Cost: a few additions per node and per phase of a chunk;
// 100 bytes a rank and 16 more per dimension.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "predict/astra/astra_observer.h"
#include "spec/trace/exposed.h"

namespace tombolo::astra {

class AstraLedger : public AstraObserver {
 public:
  void begins(const Cast& cast) override;
  void node_begins(int32_t rank, uint32_t node, SimTime at) override;
  void node_ends(int32_t rank, uint32_t node, SimTime at) override;
  void receive_met(int32_t rank, uint32_t node, SimTime at) override;
  void phase_begins(int32_t rank, uint32_t chunk, const Phase& phase, SimTime at) override;
  void phase_ends(int32_t, uint32_t, SimTime) override {}
  void message_passes(const Message& message) override;
  void rank_ends(int32_t rank, SimTime at) override;

  // After a run, whether or not what the Cast pointed to is still there.
  const trace::ExposedTime& exposed(int32_t npu) const { return of(npu).exposed; }
  trace::ExposedTime exposed_mean() const;  // over all NPUs; parts rounded down
  int32_t last() const;                     // the first NPU of those that end last
  std::vector<trace::DimensionUse> dimensions() const;
  int64_t bytes_sent() const;  // by all NPUs

  // How many NPUs the simulated rank stands for, itself included.
  int64_t stands_for(int32_t rank) const;
  int32_t npus() const { return npus_; }

 private:
  enum Cause : uint8_t { kAccelerator, kHost, kRemoteMemory, kCommunication, kCauses };
  struct Rank {
    int32_t npu = 0;
    int64_t stands_for = 1;
    int32_t under_way[kCauses] = {};
    SimTime since;            // the last change
    SimTime computing_since;  // one computation of the accelerator at a time
    SimDuration spent[kCauses];
    trace::ExposedTime exposed;  // when the rank has ended
  };
  struct Sent {  // by one NPU along a dimension
    int64_t bytes = 0;
    int64_t carried = 0;  // bytes times links
  };
  struct Load {
    size_t dimension = 0;
    Sent sent;
  };

  const Rank& of(int32_t npu) const;
  int32_t rank_of(int32_t npu) const {
    return class_of_.empty() ? npu : class_of_[static_cast<size_t>(npu)];
  }
  static Cause cause_of(const Program::Node& node);
  bool waits(const Program::Node& node) const;  // when it begins
  SimDuration explained_by_memory(const Program::Node& node, SimDuration lasted) const;
  void pass(Rank& rank, SimTime at);
  const std::vector<Load>& loads_of(const Phase& phase, int32_t npu);

  Cast cast_;  // during the run
  std::vector<network::Dimension> shape_;
  int32_t npus_ = 0;
  std::vector<int32_t> class_of_;  // empty: every NPU is simulated
  std::vector<Rank> ranks_;
  std::vector<Sent> sent_;  // per simulated rank and dimension
  // By phase and group, then member; member 0 for all where they are alike.
  using PhaseOfGroup = std::pair<const SharedPhase*, int32_t>;
  using LoadsOfMembers = std::vector<std::vector<Load>>;
  std::map<PhaseOfGroup, LoadsOfMembers> loads_;
  PhaseOfGroup latest_;  // ranks begin the same phase one after the other
  LoadsOfMembers* latest_loads_ = nullptr;
};

}  // namespace tombolo::astra
