#include "perform/kernels/neighbours.h"

#include <set>

#include "base/check.h"
#include "spec/schedule/schedule.h"

namespace tombolo::kernels {
namespace {

void check_place(const plan::Plan& plan, int32_t rank) {
  CHECK(rank >= 0 && static_cast<size_t>(rank) < plan.ranks.size(), "rank {} of a Plan for {}",
        rank, plan.ranks.size());
}

}  // namespace

std::vector<int32_t> neighbours(const plan::Plan& plan, int32_t rank) {
  check_place(plan, rank);
  const layout::Placement& own = plan.ranks[rank];
  const schedule::PipelineShape shape = schedule::shape_of(plan);
  std::set<int32_t> out;
  for (const int32_t replica : plan.replicas_of(own.stage)) out.insert(replica);
  for (const int32_t stage : shape.stages_at(own.stage)) {
    if (stage > 0) out.insert(plan.rank_of(stage - 1, own.replica));
    if (stage + 1 < shape.stages) out.insert(plan.rank_of(stage + 1, own.replica));
  }
  if (const auto other = plan.other_end(rank)) out.insert(*other);
  out.erase(rank);
  return {out.begin(), out.end()};
}

}  // namespace tombolo::kernels
