// What the search over several datacenters asks of a law, and links between stages.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "predict/cost/iteration.h"
#include "predict/cost/mixed_pipeline.h"
#include "spec/plan/job.h"

namespace tombolo::geo {

// Prices of one stage by the index of its datacenter. Configurations have the stage's tensor
// parallelism. Called from several threads.
//
// The search counts on this: a pass grows with the layers of a slice, no faster than their number;
// memory grows with layers and with micro-batches in flight; embedding and head add to both.
class MixedLaw {
 public:
  virtual ~MixedLaw() = default;
  virtual cost::StagePrice stage(size_t datacenter, const cost::Configuration& configuration,
                                 const model::Slice& slice) const = 0;
  virtual cost::DeviceMemory memory(size_t datacenter, const cost::Configuration& configuration,
                                    const model::Slice& slice, int64_t in_flight) const = 0;
  // From a stage to the next in the same datacenter.
  virtual cost::Hop hop(size_t datacenter, const cost::Configuration& configuration) const = 0;
};

// The law `tombolo` (cost/iteration.h). Stragglers count by all nodes of a datacenter; the host's
// time per iteration belongs to the update. Unusable: no constants for a datacenter.
Result<std::unique_ptr<MixedLaw>> tombolo_mixed_law(const plan::Job& job);

// One end of a WAN boundary: `data` replicas of a stage, each on `tensor` devices, side by side on
// the nodes of a datacenter.
struct WanEnd {
  const cluster::Datacenter* datacenter = nullptr;
  int64_t tensor = 1;
};

// A micro-batch of `size` bytes (of all tensor ranks together) between two stages. All replicas
// send at once: those on one pair of nodes share what flow_rate gives it, all share the path limit,
// and no replica sends faster than its devices' network. docs/laws/wan_flow.md.
cost::Hop wan_hop(const cluster::WanLink& link, const WanEnd& from, const WanEnd& to, int64_t data,
                  Bytes size);

}  // namespace tombolo::geo
