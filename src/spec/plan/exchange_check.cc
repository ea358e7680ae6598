#include "spec/plan/exchange_check.h"

namespace tombolo::plan {
namespace {

Status refused(const std::string& what, const std::string& why, const std::string& instead) {
  return unusable(fmt::format("[exchange] mode = \"sparse\" and {}: {}", what, why), instead);
}

}  // namespace

Status check_exchange(const Plan& plan) {
  if (!plan.exchange || !plan.exchange->is_sparse()) return {};
  const Optimizer& optimizer = plan.optimizer;
  if (optimizer.clip_norm) {
    return refused(fmt::format("optimizer.clip_norm = {:g}", *optimizer.clip_norm),
                   "groups are updated before the norm of all is known", "no clip_norm");
  }
  if (plan.model.tied_embeddings && plan.stages.size() > 1) {
    return refused("model.tied_embeddings = true on several stages",
                   "the two copies would get different blocks", "pipeline = 1");
  }
  if (optimizer.name_in_use() == OptimizerName::kMuon) {
    return refused("optimizer.name = \"muon\"", "it needs whole matrices",
                   "name = \"adamw\" or \"sgd\"");
  }
  if (optimizer.name_in_use() == OptimizerName::kSgd && optimizer.weight_decay > 0) {
    return refused(
        fmt::format("optimizer.weight_decay = {:g} with name = \"sgd\"", optimizer.weight_decay),
        "it would pass through the momentum of all parameters", "weight_decay = 0");
  }
  return {};
}

}  // namespace tombolo::plan
