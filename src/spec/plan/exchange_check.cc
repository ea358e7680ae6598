#include "spec/plan/exchange_check.h"

#include "spec/plan/gradient_groups.h"

namespace tombolo::plan {
namespace {

Status refused(const Plan& plan, const std::string& what, const std::string& why,
               const std::string& instead) {
  return unusable(
      fmt::format("[exchange] mode = \"{}\" and {}: {}", to_name(plan.exchange->mode), what, why),
      instead);
}

// The parameters of a datacenter are one state: whole pipelines lie in it.
Status check_local(const Plan& plan) {
  for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
    const size_t home = plan.datacenter_index(plan.rank_of(0, replica));
    for (size_t stage = 1; stage < plan.stages.size(); ++stage) {
      const int32_t rank = plan.rank_of(static_cast<int32_t>(stage), replica);
      if (plan.datacenter_index(rank) == home) continue;
      return refused(plan, fmt::format("pipeline {} in two datacenters", replica),
                     "each datacenter trains a whole model of its own", "datacenter_per_replica");
    }
  }
  return {};
}

// Where no pass waits for one group alone, what the order changes and why; else nothing. (Between more than
// two datacenters the last of all groups may be summed a little sooner or later.)
std::string effect_of_order(const Plan& plan) {
  if (!plan.exchanges_gradients()) return "has no effect: [stage_times] says how long a sum takes";
  if (!plan.updates_by_group())
    return "changes little: updates wait for the gradients of all groups";
  for (int32_t stage = 0; stage < std::ssize(plan.stages); ++stage) {
    if (plan.exchanges_gradients(stage) && gradient_groups(plan, stage).size() > 1) return {};
  }
  return "has no effect: each stage has one group of gradients";
}

}  // namespace

Status check_exchange(const Plan& plan) {
  if (!plan.exchange || plan.exchange->mode == ExchangeMode::kDense) return {};
  const Optimizer& optimizer = plan.optimizer;
  if (optimizer.clip_norm) {
    return refused(plan, fmt::format("optimizer.clip_norm = {:g}", *optimizer.clip_norm),
                   "groups are updated before the norm of all is known", "no clip_norm");
  }
  if (plan.model.tied_embeddings && plan.stages.size() > 1) {
    return refused(plan, "model.tied_embeddings = true on several stages",
                   "the two copies would get different updates", "pipeline = 1");
  }
  if (plan.exchange->is_local()) return check_local(plan);
  if (plan.exchange->visits_all()) return {};
  if (optimizer.name_in_use() == OptimizerName::kMuon) {
    return refused(plan, "optimizer.name = \"muon\"", "it needs whole matrices",
                   "name = \"adamw\" or \"sgd\", or optimizer_visits = \"all\" in [exchange]");
  }
  if (optimizer.name_in_use() == OptimizerName::kSgd && optimizer.weight_decay > 0) {
    return refused(
        plan,
        fmt::format("optimizer.weight_decay = {:g} with name = \"sgd\"", optimizer.weight_decay),
        "it would pass through the momentum of all parameters",
        "weight_decay = 0, or optimizer_visits = \"all\" in [exchange]");
  }
  return {};
}

std::vector<std::string> notes_on_exchange(const Plan& plan) {
  if (!plan.exchange) return {};
  if (!plan.replicas_lie_apart()) return {kExchangeHasNoEffect};
  std::vector<std::string> notes;
  if (plan.exchange->is_first_come()) {
    const std::string effect = effect_of_order(plan);
    if (!effect.empty()) notes.push_back("[exchange] order = \"first-come\" " + effect);
  }
  return notes;
}

std::vector<std::string> notes_on_density(const Plan& plan) {
  if (!plan.exchange || !plan.replicas_lie_apart() || !plan.exchange->density_changes()) return {};
  return {fmt::format(
      "predictions count a density of {:g}, that of the first iteration, but for simulate "
      "--iterations; a run changes it between {:g} and {:g} as the line's rate does",
      plan.exchange->density_in_use(), plan.exchange->density_range[0],
      plan.exchange->density_range[1])};
}

}  // namespace tombolo::plan
