// AstraLocalMemory: what an NPU's own memory holds while it works, by the tensors that its nodes
// name.
//
// By ASTRA-sim's rule a tensor lives from when the node that writes it begins (from the start of
// the run, if some node reads it before any writes it) until the last node that reads it ends; to
// the end of the run, if none does. The first writer and the first size count. Nothing is limited:
// the peak tells whether a run would fit.
//
// Cost: 32 bytes for every tensor that a node names, on every simulated rank.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/value.h"
#include "predict/astra/astra_observer.h"

namespace tombolo::astra {

class AstraLocalMemory : public AstraObserver {
 public:
  void begins(const Cast& cast) override;
  void node_begins(int32_t rank, uint32_t node, SimTime at) override;
  void node_ends(int32_t rank, uint32_t node, SimTime at) override;
  void phase_begins(int32_t, uint32_t, const Phase&, SimTime) override {}
  void phase_ends(int32_t, uint32_t, SimTime) override {}
  void message_passes(const Message&) override {}
  void rank_ends(int32_t, SimTime) override {}

  // After a run. Where one rank was simulated for its class, what that one holds.
  int64_t peak(int32_t npu) const;  // bytes
  // In the Chrome trace event format, as ASTRA-sim's, without its heat map: when tensors are read
  // and first written (by a node UNDEFINED what is read before), when they live, and how much
  // lives.
  Value trace(int32_t npu) const;
  // The NPUs that were simulated, which are all that differ.
  std::vector<int32_t> simulated() const;

 private:
  struct Access {
    uint32_t tensor = 0, node = 0;
    SimTime start, end;
    bool writes = false;
  };
  struct Rank {
    int32_t npu = 0;
    std::shared_ptr<const Tensors> tensors;  // null: its nodes name none
    std::vector<SimTime> begun;              // per node
    std::vector<Access> accesses;            // in the order of their ends
  };
  struct Life {
    SimTime begin, end;
    bool lives = false, ends = false;
  };
  struct Moment {
    SimTime at;
    int64_t bytes = 0;  // alive from then on
  };

  const Rank& of(int32_t npu) const;
  static std::vector<Life> lives(const Rank& rank);
  static std::vector<Moment> timeline(const Rank& rank, const std::vector<Life>& lives);

  std::vector<Rank> ranks_;
  std::vector<int32_t> class_of_;  // empty: every NPU is simulated
};

}  // namespace tombolo::astra
