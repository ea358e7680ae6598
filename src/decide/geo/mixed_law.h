// What the search over several datacenters asks of a law.
#pragma once

#include <memory>
#include <optional>

#include "base/result.h"
#include "predict/cost/stage_laws.h"
#include "spec/plan/job.h"

namespace tombolo::geo {

// Prices of one stage by the index of its datacenter. Configurations have the stage's tensor
// parallelism. Called from several threads.
//
// The search counts on this: a pass grows with the layers of a slice, no faster than their number;
// memory grows with layers and with microbatches in flight; embedding and head add to both.
class MixedLaw {
 public:
  virtual ~MixedLaw() = default;
  virtual cost::StagePrice stage(size_t datacenter, const cost::Configuration& configuration,
                                 const model::Slice& slice) const = 0;
  virtual cost::DeviceMemory memory(size_t datacenter, const cost::Configuration& configuration,
                                    const model::Slice& slice, int64_t in_flight) const = 0;
  // From a stage to the next in the same datacenter.
  virtual cost::Hop hop(size_t datacenter, const cost::Configuration& configuration) const = 0;
  // Whether selective recomputation differs from none anywhere.
  virtual bool selective_recompute_differs() const { return true; }
  // An iteration of a job that says everything, on the nodes that its Plan has: a search knows none.
  // Nothing where a law has no Plans.
  virtual std::optional<cost::MixedIteration> iteration(const plan::Job&) const { return {}; }
};

// The law `tombolo` as Plans carry it (cost/stage_laws.h). Unusable: no constants for a datacenter.
Result<std::unique_ptr<MixedLaw>> tombolo_mixed_law(const plan::Job& job);

}  // namespace tombolo::geo
