// The parameters of a stage in groups, in the order in which its next forward pass needs them.
//
// Replicas that lie in several datacenters sum their gradients group by group: a group leaves as
// soon as its gradient is complete, which is in the reverse order, and a forward pass waits for the
// groups that it has reached. The units are embedding, each layer, and norm and head; neighbours
// are joined until they come to kGroupFloor, so that each is worth its messages: 1 MiB takes 8 ms
// at 1 Gbps, and a transfer of less than a millisecond, short compared with a WAN's latency, costs
// more than it hides.
//
// A pass is taken to spend its time as model::forward_flops says, so that the embedding takes none;
// the backward pass goes through the stage in reverse, in the same shares. (Where the last stage
// recomputes within its backward pass, that time is spread over it in the same shares.) Cost:
// O(layers) evaluations of closed forms.
#pragma once

#include <vector>

#include "base/units.h"
#include "spec/model/model.h"
#include "spec/plan/plan.h"

namespace tombolo::plan {

inline constexpr Bytes kGroupFloor{1024.0 * 1024.0};

struct GradientGroup {
  model::Slice slice;  // which parameters; those of a tied head lie in the group of the embedding
  Bytes bytes;         // as gradients, of one shard: whole elements, but for what a stage has over
  double needed_at = 0;    // the share of the stage's forward pass before it is needed
  double complete_at = 1;  // the share of its backward pass after which the gradient is there

  bool operator==(const GradientGroup&) const = default;
};

// Of one stage of the model. The groups' slices cover the stage's, in its order, and their bytes
// are `gradients` exactly, divided as their parameters are: where shards divide different tensors
// differently (experts), a group's share is an estimate. At least one group, however small.
std::vector<GradientGroup> gradient_groups(const model::Model& model, const model::Slice& stage,
                                           Bytes gradients, double element_bytes,
                                           Bytes floor = kGroupFloor);

// Of stage `stage` of a Plan: their bytes are Stage::gradients.
std::vector<GradientGroup> gradient_groups(const Plan& plan, int32_t stage);

}  // namespace tombolo::plan
