#include "cost/stage_cost.h"

#include <algorithm>

namespace tombolo::cost {

StageCost roofline(const model::Model& model, const model::Slice& slice,
                   const cluster::Device& device, const Workload& workload) {
  const auto tokens = static_cast<double>(workload.micro_batch * model.sequence);
  const Flops all = model::forward_flops(model, slice, workload.micro_batch);
  // Scores and context: two products of s x s x (heads x head size) per sequence.
  const Flops scores{4 * tokens * static_cast<double>(model.sequence) *
                     static_cast<double>(model.attention_width() * slice.layers)};
  const Seconds attention = scores / (device.peak * device.attention_efficiency);
  const Seconds arithmetic = (all - scores) / (device.peak * device.efficiency) + attention;
  const auto parameters = static_cast<double>(model::parameters(model, slice));
  const Seconds traffic = Bytes{parameters * workload.element_bytes} / device.memory_bandwidth;

  StageCost cost;
  cost.forward = std::max(arithmetic, traffic);
  cost.backward = 2 * cost.forward;
  if (workload.recompute == model::Recompute::kFull) cost.recompute = cost.forward;
  if (workload.recompute == model::Recompute::kSelective) cost.recompute = attention;
  cost.update = Bytes{2 * workload.state_bytes * parameters} / device.memory_bandwidth;
  return cost;
}

}  // namespace tombolo::cost
