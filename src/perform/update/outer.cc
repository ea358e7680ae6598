#include "perform/update/outer.h"

#include "base/check.h"
#include "perform/update/momentum.h"

namespace tombolo::update {

void outer_step(const OuterStep& step, std::span<const float> mean, const OuterState& state,
                std::span<float> parameters) {
  CHECK(mean.size() == state.anchor.size() && mean.size() == parameters.size(),
        "an outer step of {} numbers for {} and {}", mean.size(), state.anchor.size(),
        parameters.size());
  if (state.momentum.empty()) {
    CHECK(step.momentum == 0, "a momentum of {} that is not kept", step.momentum);
    const auto rate = static_cast<float>(step.rate);
    for (size_t i = 0; i < mean.size(); ++i) state.anchor[i] -= rate * mean[i];
  } else {
    momentum({.learning_rate = step.rate, .momentum = step.momentum, .nesterov = true},
             state.anchor, mean, state.momentum);
  }
  const auto own = static_cast<float>(step.blend), theirs = static_cast<float>(1 - step.blend);
  for (size_t i = 0; i < mean.size(); ++i) {
    parameters[i] =
        step.blend == 0 ? state.anchor[i] : own * parameters[i] + theirs * state.anchor[i];
  }
}

}  // namespace tombolo::update
