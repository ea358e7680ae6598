// What a run, or a simulated one, changed during training, as answers have it:
// {"first", "last", "changed", "changes": [...]}.
#pragma once

#include <cstdint>
#include <span>

#include "base/value.h"
#include "spec/plan/plan.h"
#include "steer/tune/tuning_decisions.h"

namespace tombolo::command {

// `newest` of `changed` decisions in all.
Value decisions_json(double first_density, int64_t changed,
                     std::span<const tune::DensityDecision> newest);
Value decisions_json(const plan::Plan& plan, int64_t changed,
                     std::span<const tune::BatchDecision> newest);

}  // namespace tombolo::command
