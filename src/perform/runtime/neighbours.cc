#include "perform/runtime/neighbours.h"

#include <set>
#include <string>

#include "base/check.h"
#include "spec/schedule/schedule.h"

namespace tombolo::runtime {
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
  if (const auto other = other_end(plan, rank)) out.insert(*other);
  out.erase(rank);
  return {out.begin(), out.end()};
}

std::optional<int32_t> other_end(const plan::Plan& plan, int32_t rank) {
  check_place(plan, rank);
  if (!plan.model.tied_embeddings) return std::nullopt;
  const int32_t replica = plan.ranks[rank].replica;
  const auto last_stage = static_cast<int32_t>(plan.stages.size()) - 1;
  const int32_t first = plan.rank_of(0, replica), last = plan.rank_of(last_stage, replica);
  if (first == last || (rank != first && rank != last)) return std::nullopt;
  const auto computes = [&](int32_t end) {
    return plan.device_of(end).kind != cluster::DeviceKind::kEmulated;
  };
  if (!computes(first) || !computes(last)) return std::nullopt;
  const std::string& from = plan.datacenter_of(first).name;
  const std::string& to = plan.datacenter_of(last).name;
  if (from != to && !plan.cluster.link(from, to)) return std::nullopt;
  return rank == first ? last : first;
}

}  // namespace tombolo::runtime
