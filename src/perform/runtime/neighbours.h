// Whom a rank talks to.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "spec/plan/plan.h"

namespace tombolo::runtime {

// Those a rank exchanges bytes with: who holds a stage before or after one of its own in its
// pipeline, the other replicas of its stages, and its other_end(). Ascending, each once, never
// itself.
std::vector<int32_t> neighbours(const plan::Plan& plan, int32_t rank);

// The rank that holds the other copy of a tied embedding: of the first stage for who holds the
// last, and the other way round. Nothing where both are of one rank, nothing is tied, nothing is
// computed (emulated devices), or there is no WAN link between their datacenters.
std::optional<int32_t> other_end(const plan::Plan& plan, int32_t rank);

}  // namespace tombolo::runtime
