// Which ranks a rank communicates with.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/plan/plan.h"

namespace tombolo::kernels {

// The ranks that it exchanges bytes with: those with a stage before or after one of its own in its
// pipeline, the other replicas of its stages, and its Plan::other_end. Ascending, each once, never
// itself.
std::vector<int32_t> neighbours(const plan::Plan& plan, int32_t rank);

}  // namespace tombolo::kernels
