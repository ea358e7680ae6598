#include "perform/kernels/state_layout.h"

#include <algorithm>

namespace tombolo::kernels {
namespace {

// Devices that only wait have no optimizer, and no experts.
bool computes(const plan::Plan& plan) {
  return plan.device_of(0).kind != cluster::DeviceKind::kEmulated;
}

}  // namespace

bool shards_optimizer(const plan::Plan& plan) {
  return plan.parallelism.zero > 0 && plan.replicas() > 1 && computes(plan);
}

int64_t replicas_per_experts(const plan::Plan& plan) {
  const layout::Parallelism& p = plan.parallelism;
  return plan.model.experts && computes(plan) ? std::max<int64_t>(1, p.expert / p.context) : 1;
}

bool holds_residuals(const plan::Plan& plan) {
  return plan.exchange && plan.exchange->keeps_residuals() && plan.exchanges_gradients();
}

bool steps_locally(const plan::Plan& plan) {
  return plan.exchange && plan.exchange->is_local() && plan.exchanges_gradients();
}

bool writes_parameters(const plan::Plan& plan, int32_t rank) {
  const int32_t replica = plan.ranks[static_cast<size_t>(rank)].replica;
  if (!steps_locally(plan)) return replica == 0 || !holds_residuals(plan);
  const int32_t position = plan.ranks[static_cast<size_t>(rank)].stage;
  const size_t home = plan.datacenter_index(rank);
  for (const int32_t other : plan.replicas_of(position)) {
    if (other != rank && plan.ranks[static_cast<size_t>(other)].replica < replica &&
        plan.datacenter_index(other) == home) {
      return false;
    }
  }
  return true;
}

std::string parameter_suffix(const plan::Plan& plan, int32_t rank) {
  const int32_t first = plan.rank_of(0, 0);
  if (!steps_locally(plan) || plan.datacenter_index(rank) == plan.datacenter_index(first))
    return "";
  return ".in." + plan.datacenter_of(rank).name;
}

}  // namespace tombolo::kernels
