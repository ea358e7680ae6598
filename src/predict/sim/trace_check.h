// Verifies a predicted Trace from the Trace and its Plan alone: whatever made the Trace, no
// resource may carry more than it can.
//
//   capacity   on each resource (spec/plan/resources.h), whatever span of time is looked at:
//              bytes that begin and end within it fit through it
//   memory     state, workspace and the activations of the microbatches between F and B (or W) of
//              every rank fit into its device
//   causality  nothing begins before what it needs is there; a rank computes one thing at a time
//   order      every rank does what its schedule says, in that order, and takes as long as its
//              stage costs
//   bytes      every message and every gradient all-reduce has the size that the Plan says
//
// Capacity is decided exactly: transfers with a first and a last moment fit through one resource if
// and only if serving the earliest last moment first is never late (Horn 1974, preemptive EDF; the
// processor-demand criterion of Baruah et al. 1990). That is necessary for all resources together,
// and cheap. Cost: O(intervals log intervals).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "spec/plan/plan.h"
#include "spec/trace/trace.h"

namespace tombolo::sim {

struct ResourceUse {
  std::string name;
  BytesPerSecond capacity;
  Bytes carried;
  double used_share = 0;  // carried, over what it could carry from the Trace's first to last moment
};

enum class ViolationKind { kCapacity, kMemory, kCausality, kOrder, kBytes };
constexpr auto enum_names(ViolationKind) {
  return std::to_array<EnumName<ViolationKind>>({{ViolationKind::kCapacity, "capacity"},
                                                 {ViolationKind::kMemory, "memory"},
                                                 {ViolationKind::kCausality, "causality"},
                                                 {ViolationKind::kOrder, "order"},
                                                 {ViolationKind::kBytes, "bytes"}});
}

struct Violation {
  ViolationKind kind = ViolationKind::kCapacity;
  std::string text;  // one sentence
};

struct Check {
  std::vector<ResourceUse> resources;  // those that carried anything, fullest first
  std::vector<Bytes> peak_memory;      // per rank
  std::vector<Violation> violations;   // at most kViolationsMax of a kind
};
inline constexpr size_t kViolationsMax = 10;

// Unusable: a Plan that cannot be scheduled, ranks that it does not have.
Result<Check> check_trace(const plan::Plan& plan, const trace::Trace& trace);

}  // namespace tombolo::sim
