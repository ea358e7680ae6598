#include "cost/stage_cost.h"

#include <algorithm>

namespace tombolo::cost {

StageCost roofline(const model::Model& model, const model::Slice& slice,
                   const cluster::Device& device, const Workload& workload) {
  const Flops all = model::forward_flops(model, slice, workload.micro_batch);
  const Flops scores = model::score_flops(model, slice, workload.micro_batch);
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
