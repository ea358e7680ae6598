// Whether the rest of a Plan is compatible with its [exchange].
#pragma once

#include <string>
#include <vector>

#include "spec/plan/plan.h"

namespace tombolo::plan {

// Sparse updates come group by group, and each changes only blocks of a group. Unusable, by name, for
// what needs all gradients at once, or to change all parameters: a norm to clip by, two copies of a
// tied embedding, Muon, weight decay of SGD. Local steps refuse the first two, and pipelines that do not
// lie in one datacenter each.
Status check_exchange(const Plan& plan);

inline constexpr const char* kExchangeHasNoEffect =
    "[exchange] has no effect: no stage has replicas in several datacenters";

// Sentences: that nothing of [exchange] has an effect, where no stage has replicas in several datacenters; else
// that its order has little or none, where no pass waits for one group alone.
std::vector<std::string> notes_on_exchange(const Plan& plan);
// For a density that a run changes: which one predictions use.
std::vector<std::string> notes_on_density(const Plan& plan);

}  // namespace tombolo::plan
