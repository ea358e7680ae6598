// The outer step of local steps (DiLoCo: Douillard et al. 2023; Streaming DiLoCo, 2025). Datacenters train
// copies of the same parameters, and now and then tell how far theirs went:
//
//   d = anchor - parameters                  of each, since the last outer step
//   anchor = Nesterov's SGD of mean(d)       the same bits everywhere (momentum.h)
//   parameters = blend * parameters + (1 - blend) * anchor
//
// What a datacenter has learned between the two, while updates were on their way, stays by its `blend`.
#pragma once

#include <span>

namespace tombolo::update {

struct OuterStep {
  double rate = 1;
  double momentum = 0.9;
  double blend = 0;
};

// What datacenters share, of a group of parameters.
struct OuterState {
  std::span<float> anchor;
  std::span<float> momentum;  // empty where there is none
  std::span<float>
      arrived;  // the mean that an outer step under way ends with; empty without a delay
};

void outer_step(const OuterStep& step, std::span<const float> mean, const OuterState& state,
                std::span<float> parameters);

}  // namespace tombolo::update
