// The learning rate of a step: a function of the step alone, so it need not be in a checkpoint and
// a resumed run continues exactly.
//
// Linear warm-up to learning_rate over warmup_steps, then as the rule says:
//   cosine    half a cosine down to learning_rate_min
//   constant  learning_rate, for ever
//   linear    a straight line down to learning_rate_min
//   wsd       learning_rate, and in the last decay_steps a straight line down to learning_rate_min
// All but `constant` reach the minimum at iteration `steps` and stay there.
#pragma once

#include <cstdint>

#include "spec/plan/settings.h"

namespace tombolo::update {

// Iterations count from 1. A warm-up longer than the run ends with it. A decay that would begin
// before the end of the warm-up begins there.
double learning_rate(const plan::Optimizer& optimizer, int64_t steps, int64_t iteration);

}  // namespace tombolo::update
