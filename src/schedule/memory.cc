// What a schedule asks of the devices' memory.
#include <algorithm>

#include "base/check.h"
#include "schedule/schedule.h"

namespace tombolo::schedule {

std::vector<int64_t> peak_in_flight(const Schedule& schedule) {
  std::vector<int64_t> peaks;
  for (const Order& order : schedule.ranks) {
    int64_t now = 0;
    int64_t peak = 0;
    for (const trace::Action& action : order) {
      if (action.kind == trace::ActionKind::kForward) peak = std::max(peak, ++now);
      if (action.kind == trace::ActionKind::kBackward) --now;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<Bytes> peak_memory(const plan::Plan& plan, const Schedule& schedule) {
  const std::vector<int64_t> in_flight = peak_in_flight(schedule);
  CHECK(in_flight.size() == plan.ranks.size(), "a schedule for {} ranks and a Plan for {}",
        in_flight.size(), plan.ranks.size());
  std::vector<Bytes> peaks;
  for (size_t r = 0; r < plan.ranks.size(); ++r) {
    const plan::Stage& stage = plan.stages[plan.ranks[r].stage];
    peaks.push_back(stage.state + stage.activations * static_cast<double>(in_flight[r]));
  }
  return peaks;
}

Status check_memory(const plan::Plan& plan, const Schedule& schedule) {
  if (plan.cost_source == plan::CostSource::kStageTimes) return {};
  const std::vector<Bytes> needs = peak_memory(plan, schedule);
  // The stage that is furthest from fitting: whoever helps it helps most.
  size_t worst = 0;
  const auto share = [&](size_t r) {
    return needs[r] / plan.device_of(static_cast<int32_t>(r)).memory;
  };
  for (size_t r = 1; r < needs.size(); ++r) {
    if (share(r) > share(worst)) worst = r;
  }
  const auto& device = plan.device_of(static_cast<int32_t>(worst));
  if (needs.empty() || needs[worst] <= device.memory) return {};

  const plan::Stage& stage = plan.stages[plan.ranks[worst].stage];
  const int64_t in_flight = peak_in_flight(schedule)[worst];
  const Bytes activations = needs[worst] - stage.state;
  const auto gib = [](Bytes bytes) { return fmt::format("{:.1f} GiB", bytes / 1_GiB); };
  const bool state_is_larger = stage.state > activations;
  const std::string largest =
      state_is_larger ? fmt::format("weights, gradients and optimizer, {}", gib(stage.state))
                      : fmt::format("activations of {} micro-batches in flight, {}", in_flight,
                                    gib(activations));
  return infeasible(
      fmt::format("stage {} does not fit in memory: it needs {}, {} has {}; largest: {}",
                  plan.ranks[worst].stage, gib(needs[worst]), device.name, gib(device.memory),
                  largest),
      state_is_larger ? "more stages, or a smaller model"
                      : "a smaller micro_batch, recompute = \"full\", or more stages");
}

}  // namespace tombolo::schedule
