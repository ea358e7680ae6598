// Whom a rank talks to.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/plan/plan.h"

namespace tombolo::kernels {

// Those a rank exchanges bytes with: who holds a stage before or after one of its own in its
// pipeline, the other replicas of its stages, and its Plan::other_end. Ascending, each once, never
// itself.
std::vector<int32_t> neighbours(const plan::Plan& plan, int32_t rank);

}  // namespace tombolo::kernels
