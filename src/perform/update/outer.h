// The outer step of local steps (DiLoCo: Douillard et al. 2023; Streaming DiLoCo, 2025). Datacenters train
// copies of the same parameters, and from time to time exchange how far these have moved:
//
//   d = anchor - parameters                  of each, since the last outer step
//   anchor = Nesterov's SGD of mean(d)       the same bits everywhere (momentum.h)
//   parameters = blend * parameters + (1 - blend) * anchor
//
// What a datacenter learned while the updates were in transit is kept with the weight `blend`.
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
