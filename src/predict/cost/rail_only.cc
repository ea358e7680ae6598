#include "predict/cost/rail_only.h"

#include <algorithm>

#include "base/check.h"
#include "predict/network/grid_collective.h"

namespace tombolo::cost {
namespace {

// Equation 1.
Seconds all_gather(Bytes gathered, const DegreeSplit& grid, const RailOnlyMachine& machine) {
  return network::hierarchical_all_gather({.domain = grid.domain,
                                           .domains = grid.network,
                                           .scale_up = machine.domain_bandwidth,
                                           .port = machine.network_bandwidth},
                                          gathered);
}

// What a message of a group waits before it moves.
Seconds latency(const DegreeSplit& grid, const RailOnlyMachine& machine) {
  if (grid.network > 1) return machine.network_latency;
  return grid.domain > 1 ? machine.domain_latency : 0_s;
}

// 72 B l s h^2.
double base_flops(const RailOnlyModel& m, int64_t global_batch) {
  return 72 * real(global_batch) * real(m.layers) * real(m.sequence) * real(m.hidden) *
         real(m.hidden);
}

double logits_share(const RailOnlyModel& m) {
  return real(m.vocabulary) / (12 * real(m.hidden) * real(m.layers));
}

}  // namespace

RailOnlyTime rail_only(const RailOnlyModel& model, const RailOnlyMachine& machine,
                       const RailOnlySplit& split) {
  CHECK(machine.peak.value > 0 && machine.domain_bandwidth.value > 0 &&
            machine.network_bandwidth.value > 0,
        "devices of {} FLOPS are joined by {} and {} B/s", machine.peak.value,
        machine.domain_bandwidth.value, machine.network_bandwidth.value);
  CHECK(split.micro_batch >= 1 && split.virtual_stages >= 1, "microbatches of {} in {} rounds",
        split.micro_batch, split.virtual_stages);
  const double l = real(model.layers), h = real(model.hidden), s = real(model.sequence);
  const double t = real(split.tensor.degree()), p = real(split.pipeline.degree());
  const double B = real(split.global_batch), b = real(split.micro_batch);
  const double v = real(split.virtual_stages);
  const double m = B / (real(split.data.degree()) * b);

  const double base = base_flops(model, split.global_batch);
  const double attention = base * (1.0 / 3 + 2.0 / 9 * s / h);
  const double rest = base * 2.0 / 3 + base * logits_share(model);
  const Seconds micro_batch =
      Flops{(rest + machine.attention_slowdown * attention) * b / (B * p * t)} / machine.peak;

  const Bytes activation{2 * b * h * s};
  const Bytes boundary = activation / t;
  const Bytes gradients{2 * l * 12 * h * h / (p * t)};

  RailOnlyTime time;
  time.compute = m * micro_batch;
  time.bubble_compute = (p - 1) / v * micro_batch;
  const double p_h = real(split.pipeline.domain), p_l = real(split.pipeline.network);
  time.bubble_communication =
      2 * (p_l - 1) * (boundary / machine.network_bandwidth + machine.network_latency) +
      2 * p_l * (p_h - 1) * (boundary / machine.domain_bandwidth + machine.domain_latency);
  time.tensor_communication =
      8 * l * m / p *
      (all_gather(activation, split.tensor, machine) + latency(split.tensor, machine));
  if (p > 1) {
    const BytesPerSecond rate = p_l > 1 ? machine.network_bandwidth : machine.domain_bandwidth;
    time.pipeline_communication = 2 * m * v * (boundary / rate + latency(split.pipeline, machine));
  }
  time.synchronization =
      2 * (all_gather(gradients, split.data, machine) + latency(split.data, machine));
  return time;
}

RailOnlyFlops rail_only_flops(const RailOnlyModel& m, int64_t global_batch) {
  const double base = base_flops(m, global_batch);
  const double s_over_h = real(m.sequence) / real(m.hidden);
  return {Flops{base * (1 + s_over_h / 6 + logits_share(m))},
          Flops{base * (1 + 2.0 / 9 * s_over_h + logits_share(m))}};
}

RailOnlyMemory rail_only_memory(const RailOnlyModel& m, const RailOnlySplit& split,
                                double state_bytes, model::Recompute recompute) {
  CHECK(state_bytes >= 0, "{} bytes per parameter", state_bytes);
  const double t = real(split.tensor.degree()), p = real(split.pipeline.degree());
  const double v = real(split.virtual_stages);
  const double parameters = m.parameters / (p * t);
  double per_element = 34;
  if (recompute == model::Recompute::kNone) {
    per_element += 5 * real(m.heads) * real(m.sequence) / real(m.hidden);
  } else if (recompute == model::Recompute::kFull) {
    per_element = 2;
  }
  const double elements = real(m.sequence) * real(split.micro_batch) * real(m.hidden);
  const double interleaved = v > 1 ? 1 + (p - 1) / (p * v) : 1;

  RailOnlyMemory memory;
  memory.parameters = Bytes{std::min(2.0, state_bytes) * parameters};
  memory.gradients = Bytes{std::clamp(state_bytes - 2, 0.0, 2.0) * parameters};
  memory.optimizer = Bytes{std::max(0.0, state_bytes - 4) * parameters};
  memory.activations = Bytes{per_element * elements * real(m.layers) / t * interleaved};
  return memory;
}

}  // namespace tombolo::cost
