// What a launcher refuses before it starts anything (launcher.h).
#include <algorithm>

#include "perform/kernels/emulated_kernels.h"
#include "perform/kernels/state_layout.h"
#include "perform/run/launcher.h"
#include "perform/stage/perform.h"
#include "spec/schedule/schedule.h"

namespace tombolo::run {

namespace {

bool waits(const plan::Plan& plan, const layout::Placement& placement) {
  return plan.device_of(placement.rank).kind == cluster::DeviceKind::kEmulated;
}

// Checks that replicas that communicate within their passes do so in the same order: those that reduce
// gradients, gather parameters, or send tokens to each other's experts. `because` ("zero = 3") and
// `instead` are keys of [parallelism].
Status check_orders_are_alike(const plan::Plan& plan, const std::string& because,
                              const std::string& instead) {
  const auto refuse = [&](const std::string& why, const std::string& or_that) {
    return unusable(
        fmt::format("parallelism.{}: replicas meet in their passes, and {}", because, why),
        instead + ", or " + or_that);
  };
  if (plan.batch_changes())
    return refuse("adaptive_batch gives them different numbers of these", "adaptive_batch = false");
  if (!plan.parallelism.microbatches_per_replica.empty())
    return refuse("microbatches_per_replica gives them different numbers of these",
                  "leaving microbatches_per_replica out");
  const schedule::Schedule schedule = TRY(schedule::build(plan));
  for (const layout::Placement& each : plan.ranks) {
    const auto first = static_cast<size_t>(plan.rank_of(each.stage, 0));
    const auto own = static_cast<size_t>(each.rank);
    const bool pairs = schedule.pairs.empty() || schedule.pairs[own] == schedule.pairs[first];
    if (schedule.ranks[own] != schedule.ranks[first] || !pairs)
      return refuse(fmt::format("schedule \"{}\" gives them different orders", schedule.name),
                    "schedule = \"1f1b\"");
  }
  return {};
}

// Checks experts that are divided among replicas.
Status check_experts_computed(const plan::Plan& plan) {
  const layout::Parallelism& p = plan.parallelism;
  if (p.expert == 1) return {};
  const auto refuse = [&](const std::string& why, const std::string& instead) {
    return unusable(fmt::format("parallelism.expert = {}: {}", p.expert, why),
                    instead + ", or device = \"emulated:NAME\"");
  };
  if (p.expert % p.context != 0 && p.context % p.expert != 0)
    return refuse(fmt::format("is no multiple of context = {} and no part of it", p.context),
                  fmt::format("expert = {}", p.context));
  if (kernels::replicas_per_experts(plan) == 1) return {};
  if (plan.exchanges_gradients())
    return refuse(
        "where replicas of a stage lie in several datacenters, it can be predicted but not "
        "performed yet",
        fmt::format("expert = {}", p.context));
  return check_orders_are_alike(plan, fmt::format("expert = {}", p.expert),
                                fmt::format("expert = {}", p.context));
}

// Checks a Plan that is computed. Emulated devices take every layout, because a rank represents all
// its shards.
Status check_layout_computed(const plan::Plan& plan) {
  const layout::Parallelism& p = plan.parallelism;
  TRY(check_experts_computed(plan));
  if (p.zero > 0 && plan.replicas_lie_apart()) {
    return unusable(
        "parallelism.zero = 1: where replicas of a stage lie in several datacenters, "
        "it can be predicted but not performed yet",
        "zero = 0, or device = \"emulated:NAME\"");
  }
  if (p.zero == 3 && !plan.pairs.empty()) {
    return unusable(
        "parallelism.zero = 3: a pass drops the parameters that it gathered, and in a pair of the "
        "Plan another one computes with them",
        "zero = 2, or a Plan without pairs");
  }
  if (p.zero < 2) return {};
  return check_orders_are_alike(plan, fmt::format("zero = {}", p.zero), "zero = 1");
}

}  // namespace

Status check_performable(const plan::Plan& plan) {
  TRY(plan::validate(plan));
  const auto is_emulated = [&](const layout::Placement& each) { return waits(plan, each); };
  if (!std::all_of(plan.ranks.begin(), plan.ranks.end(), is_emulated))
    TRY(check_layout_computed(plan));
  for (const layout::Placement& placement : plan.ranks) {
    const cluster::Device& device = plan.device_of(placement.rank);
    if (device.kind != cluster::DeviceKind::kAccelerator) continue;
    return unusable(fmt::format("rank {} sits on \"{}\", which can be predicted but not run here",
                                placement.rank, device.name),
                    fmt::format("device = \"cpu\" or \"emulated:{}\"", device.name));
  }
  const auto emulated = std::find_if(plan.ranks.begin(), plan.ranks.end(), is_emulated);
  const auto computing = std::find_if_not(plan.ranks.begin(), plan.ranks.end(), is_emulated);
  if (emulated != plan.ranks.end() && computing != plan.ranks.end()) {
    return unusable(
        fmt::format("rank {} sits on \"{}\" and computes, rank {} on \"{}\" and only waits: what "
                    "one sends is nothing that the other can use",
                    computing->rank, plan.device_of(computing->rank).name, emulated->rank,
                    plan.device_of(emulated->rank).name),
        "device = \"cpu\" in all datacenters, or emulated ones in all");
  }
  if (!plan.has_model() && computing != plan.ranks.end()) {
    return unusable(fmt::format("rank {} computes on \"{}\", and there is no model to compute",
                                computing->rank, plan.device_of(computing->rank).name),
                    "[model], or device = \"emulated:NAME\", which waits as [stage_times] says");
  }
  if (computing != plan.ranks.end()) {
    if (const std::string departure = model::departure(plan.model); !departure.empty()) {
      return unusable(
          fmt::format("model.{}: such models can be predicted, not trained yet", departure),
          "a model without it, or device = \"emulated:...\"");
    }
  }
  TRY(kernels::check_byte_scale(plan));
  if (plan.stages.size() > kernels::kStagesMax) {
    return unusable(fmt::format("{} stages: messages can be told apart for {} of them",
                                plan.stages.size(), kernels::kStagesMax),
                    "a smaller parallelism.virtual_stages");
  }
  TRY(schedule::build(plan));
  return {};
}

// A short lease outlives a few beats that are late.
constexpr int64_t kBeatsPerLease = 12;

Result<control::LeaseTerms> lease_terms(std::optional<Seconds> lease, Seconds grace) {
  const double max = seconds(control::kLeaseMax).value;
  if (!(grace.value >= 1 && grace.value <= max))
    return unusable(fmt::format("--grace {:g} s: from 1 s to {:g} s", grace.value, max),
                    "--grace 60s");
  control::LeaseTerms terms;
  terms.ceiling = terms.floor = round_to_ns(grace);
  if (!lease) return terms;
  if (!(lease->value >= 1 && lease->value <= grace.value)) {
    return unusable(fmt::format("--lease {:g} s: from 1 s to the grace, which is {:g} s",
                                lease->value, grace.value),
                    "leaving it out: then a lease lasts as long as the grace");
  }
  terms.floor = round_to_ns(*lease);
  terms.beat = std::min(terms.beat, SimDuration{terms.floor.ns / kBeatsPerLease});
  return terms;
}

}  // namespace tombolo::run
