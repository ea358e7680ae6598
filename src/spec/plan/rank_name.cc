#include "spec/plan/rank_name.h"

#include "base/check.h"

namespace tombolo::plan {

std::string rank_name(const Plan& plan, int32_t rank) {
  CHECK(rank >= 0 && static_cast<size_t>(rank) < plan.ranks.size(), "rank {} of {} has no name",
        rank, plan.ranks.size());
  return fmt::format("rank {} ({})", rank, plan.ranks[static_cast<size_t>(rank)].datacenter);
}

}  // namespace tombolo::plan
