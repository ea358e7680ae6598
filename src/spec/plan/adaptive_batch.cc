#include "spec/plan/adaptive_batch.h"

#include <algorithm>
#include <numeric>

namespace tombolo::plan {
namespace {

Status does_not_adapt(const std::string& key, const std::string& why, const std::string& instead) {
  return unusable(fmt::format("parallelism.adaptive_batch = true and {}: {}", key, why),
                  "adaptive_batch = false, or " + instead);
}

// The order of work, which is made again for every change.
Status check_order_adapts(const Plan& plan) {
  const layout::Parallelism& p = plan.parallelism;
  if (plan.given)
    return does_not_adapt(
        fmt::format("the schedule \"{}\" that was found for this Plan", plan.given->name),
        "its order is of these numbers of microbatches", "schedule = \"1f1b\"");
  if (!plan.pairs.empty())
    return does_not_adapt("pairs", "what runs concurrently is of these numbers of microbatches",
                          "a Plan without pairs");
  if (!traits_of(p.schedule).has(layout::kAnyMicrobatches)) {
    return does_not_adapt(
        fmt::format("schedule = \"{}\"", to_name(p.schedule)),
        "its order, or the memory that it needs, is of a certain number of microbatches",
        "schedule = \"1f1b\" or \"zb-h1\"");
  }
  if (p.sharing_in_use() == layout::Sharing::kTemporal)
    return does_not_adapt("sharing = \"temporal\"",
                          "pipelines that share the WAN in time do all the same",
                          "sharing = \"spatial\"");
  return {};
}

// A stage holds as many microbatches as stages follow, if its pipeline has that many.
Status check_memory_stays(const Plan& plan) {
  const std::vector<int64_t> each = microbatches_of_all(plan);
  const auto least = std::min_element(each.begin(), each.end());
  if (*least >= plan.parallelism.pipeline) return {};
  return does_not_adapt(
      fmt::format("pipeline = {}", plan.parallelism.pipeline),
      fmt::format("pipeline {} begins with {} microbatch{}, and would need more memory "
                  "with more of them",
                  least - each.begin(), *least, *least == 1 ? "" : "es"),
      std::accumulate(each.begin(), each.end(), int64_t{0}) >=
              std::ssize(each) * plan.parallelism.pipeline
          ? fmt::format("microbatches_per_replica with at least {} for each pipeline",
                        plan.parallelism.pipeline)
          : fmt::format("a global_batch with at least {} microbatches for each pipeline",
                        plan.parallelism.pipeline));
}

}  // namespace

Status check_adaptive_batch(const Plan& plan) {
  if (!plan.batch_changes()) return {};
  TRY(check_order_adapts(plan));
  TRY(check_memory_stays(plan));
  if (plan.exchange && plan.exchange->is_local()) {
    return does_not_adapt(
        fmt::format("[exchange] mode = \"{}\"", to_name(plan.exchange->mode)),
        "datacenters train on their own, and what a step of theirs is worth follows "
        "from its samples",
        "mode = \"dense\" or \"sparse\"");
  }
  if (plan.prefill) {
    return does_not_adapt("[prefill]", "which prompts fit is counted for the gaps of these numbers",
                          "no [prefill]");
  }
  if (plan.data && plan.data->share.size() > 1) {
    return does_not_adapt(
        "[[data.share]]",
        "each pipeline reads the files of its own share, and the shares of the batch "
        "would change",
        "data.tokens for all pipelines");
  }
  return {};
}

std::vector<std::string> notes_on_adaptive_batch(const Plan& plan) {
  if (!plan.parallelism.adaptive_batch) return {};
  if (!plan.batch_changes())
    return {"parallelism.adaptive_batch = true has no effect: one pipeline has the whole batch"};
  return {
      fmt::format("predictions count {} microbatches, those of the first iteration, but for "
                  "simulate --iterations; a run changes them as the speeds of pipelines change",
                  to_text(microbatches_of_all(plan)))};
}

Result<Plan> with_microbatches(const Plan& plan, const std::vector<int64_t>& each) {
  const int64_t all = plan.training.global_batch / plan.training.micro_batch;
  const bool fits =
      plan.batch_changes() && std::ssize(each) == plan.replicas() &&
      std::all_of(each.begin(), each.end(),
                  [&](int64_t m) { return m >= plan.parallelism.pipeline && m <= all; }) &&
      std::accumulate(each.begin(), each.end(), int64_t{0}) == all;
  if (!fits)
    return failed(fmt::format(
        "{} microbatches for {} pipelines that have {} together{}", to_text(each), plan.replicas(),
        all, plan.batch_changes() ? "" : ", and the Plan lets nothing change them"));
  Plan out = plan;
  out.parallelism.microbatches_per_replica = each;
  return out;
}

std::string to_text(const std::vector<int64_t>& microbatches) {
  return fmt::format("{}", fmt::join(microbatches, ","));
}

std::vector<int64_t> microbatches_of_all(const Plan& plan) {
  std::vector<int64_t> each;
  for (int32_t replica = 0; replica < plan.replicas(); ++replica)
    each.push_back(plan.microbatches_of(replica));
  return each;
}

}  // namespace tombolo::plan
