#include "predict/cost/price_plan.h"

#include <algorithm>

#include "predict/cost/collective.h"
#include "predict/cost/roofline.h"

namespace tombolo::cost {
namespace {

Status price_by_profile(const plan::Job& job, const plan::Hardware& hardware, plan::Plan& plan) {
  const auto mismatch = [&](const std::string& what) {
    return unusable(
        fmt::format("the hardware file was measured for another {}", what),
        fmt::format("measuring this one: tombolo profile {} --out hardware.json", job.file));
  };
  if (hardware.model != plan.model) return mismatch("model (" + hardware.model.name + ")");
  if (hardware.micro_batch != plan.training.micro_batch) {
    return mismatch(fmt::format("micro_batch ({})", hardware.micro_batch));
  }
  if (hardware.precision != to_name(plan.training.precision)) {
    return mismatch("precision (" + hardware.precision + ")");
  }
  if (hardware.recompute != plan.training.recompute) return mismatch("recompute");
  for (int32_t s = 0; s < static_cast<int32_t>(plan.stages.size()); ++s) {
    for (const int32_t rank : plan.replicas_of(s)) {
      const plan::MeasuredStage* measured =
          hardware.find(plan.stages[s].slice, plan.device_of(rank).name);
      if (!measured) return mismatch(fmt::format("split: stage {} is not in it", s));
      plan.stages[s].cost = measured->cost;
    }
  }
  plan.measured_links = hardware.links;
  plan.cost_source = plan::CostSource::kProfile;
  return {};
}

void price_by_roofline(plan::Plan& plan) {
  for (int32_t s = 0; s < static_cast<int32_t>(plan.stages.size()); ++s) {
    // Replicas of a stage share a datacenter, hence a kind of device.
    plan::Stage& stage = plan.stages[s];
    stage.cost = roofline(plan.model, stage.slice, plan.device_of(plan.rank_of(s, 0)),
                          {.micro_batch = plan.training.micro_batch,
                           .element_bytes = plan::element_bytes(plan.training.precision),
                           .recompute = plan.training.recompute,
                           .state_bytes = plan.training.optimizer_bytes_per_parameter});
    if (!plan.may_recompute(static_cast<size_t>(s))) stage.cost.recompute = 0_s;
  }
  plan.cost_source = plan::CostSource::kRoofline;
}

// The replicas of a stage sum their gradients in a ring; its slowest hop decides.
void price_reduction(plan::Plan& plan) {
  if (plan.replicas() == 1) return;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const std::vector<int32_t> ring = plan.replicas_of(static_cast<int32_t>(s));
    AllReduce what{.size = plan.stages[s].gradients, .ranks = plan.replicas()};
    for (size_t i = 0; i < ring.size(); ++i) {
      const plan::Channel hop = plan::channel_between(plan, ring[i], ring[(i + 1) % ring.size()]);
      what.rate = i == 0 ? hop.rate : std::min(what.rate, hop.rate);
      what.latency = std::max(what.latency, hop.latency);
    }
    plan.stages[s].cost.reduce = ring_all_reduce(what);
  }
}

}  // namespace

Result<plan::Plan> make_plan(const plan::Job& job, const plan::Hardware* hardware) {
  plan::Plan plan = TRY(plan::lay_out(job));
  if (job.stage_times) return plan;
  if (hardware) {
    TRY(price_by_profile(job, *hardware, plan));
  } else {
    price_by_roofline(plan);
  }
  price_reduction(plan);
  return plan;
}

}  // namespace tombolo::cost
