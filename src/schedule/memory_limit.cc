// How many micro-batches the devices of a Plan have room for.
#include <algorithm>
#include <cmath>

#include "schedule/schedule.h"

namespace tombolo::schedule {

Memory memory_of(const plan::Plan& plan) {
  const Shape shape = shape_of(plan);
  Memory memory;
  if (plan.cost_source == plan::CostSource::kStageTimes) {
    if (!plan.in_flight) return memory;
    const int64_t most = std::min<int64_t>(*plan.in_flight, shape.microbatches) * shape.chunks;
    memory.in_flight.assign(static_cast<size_t>(shape.positions()), static_cast<int32_t>(most));
    return memory;
  }
  for (int32_t position = 0; position < shape.positions(); ++position) {
    Bytes state, each;
    for (const int32_t stage : shape.stages_at(position)) {
      state += plan.stages[static_cast<size_t>(stage)].state;
      each = std::max(each, plan.stages[static_cast<size_t>(stage)].activations);
    }
    const Bytes room = plan.device_of(position * shape.replicas).memory - state;
    const double most = int64_t{shape.microbatches} * shape.chunks;
    const double held = each.value > 0 ? std::floor(room / each) : most;
    memory.in_flight.push_back(static_cast<int32_t>(std::clamp(held, 0.0, most)));
  }
  return memory;
}

}  // namespace tombolo::schedule
