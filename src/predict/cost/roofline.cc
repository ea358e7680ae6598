#include "predict/cost/roofline.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::cost {

plan::StageCost roofline(const model::Model& model, const model::Slice& slice,
                         const cluster::Device& device, const StageWork& work) {
  CHECK(device.peak.value > 0 && device.memory_bandwidth.value > 0,
        "{} does {} FLOPS and reads {} B/s", device.name, device.peak.value,
        device.memory_bandwidth.value);
  const Flops all = model::forward_flops(model, slice, work.micro_batch);
  const Flops scores = model::score_flops(model, slice, work.micro_batch);
  const Seconds attention = scores / (device.peak * device.attention_efficiency);
  const Seconds arithmetic = (all - scores) / (device.peak * device.efficiency) + attention;
  const auto parameters = static_cast<double>(model::parameters(model, slice));
  const Seconds traffic = Bytes{parameters * work.element_bytes} / device.memory_bandwidth;

  plan::StageCost cost;
  cost.forward = std::max(arithmetic, traffic);
  cost.backward = 2 * cost.forward;
  if (work.recompute == model::Recompute::kFull) cost.recompute = cost.forward;
  if (work.recompute == model::Recompute::kSelective) cost.recompute = attention;
  cost.update = Bytes{2 * work.state_bytes * parameters} / device.memory_bandwidth;
  return cost;
}

}  // namespace tombolo::cost
