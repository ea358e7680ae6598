#include "predict/cost/price_plan.h"

#include <algorithm>

#include "predict/cost/batch_by_speed.h"
#include "predict/cost/collective.h"
#include "predict/cost/constants.h"
#include "predict/cost/exchange_time.h"
#include "predict/cost/iteration.h"
#include "predict/cost/law.h"
#include "predict/cost/stage_laws.h"

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
    plan::Stage& stage = plan.stages[static_cast<size_t>(s)];
    const auto measured_on = [&](const cluster::Device& device) -> Result<plan::StageCost> {
      if (const auto* measured = hardware.find(stage.slice, device.name)) return measured->cost;
      return mismatch(fmt::format("split: stage {} is not in it", s));
    };
    stage.cost = TRY(measured_on(plan.device_of(plan.rank_of(s, 0))));
    for (plan::StageCostIn& other : stage.elsewhere) {
      other.cost = TRY(measured_on(plan.cluster.find(other.datacenter)->device));
    }
  }
  plan.measured_links = hardware.links;
  plan.cost_source = plan::CostSource::kProfile;
  return {};
}

// The laws of a Plan's stages, and the configuration as each of them sees it.
class LawsOfPlan {
 public:
  static Result<LawsOfPlan> make(const plan::Job& job, const plan::Plan& plan) {
    return LawsOfPlan(TRY(StageLaws::make(plan.model, plan)), TRY(configuration_of(job)));
  }

  const IterationLaw& law(const plan::Plan& plan, int32_t stage) const {
    return laws_.in(plan.datacenter_index(plan.rank_of(stage, 0)));
  }
  const IterationLaw& in(size_t datacenter) const { return laws_.in(datacenter); }
  Configuration at(const plan::Plan& plan, int32_t stage) const {
    return stage_configuration(configuration_, plan, stage, laws_.across());
  }

 private:
  LawsOfPlan(StageLaws laws, Configuration configuration)
      : laws_(std::move(laws)), configuration_(configuration) {}
  StageLaws laws_;
  Configuration configuration_;
};

void price_memory(const LawsOfPlan& laws, plan::Plan& plan) {
  for (int32_t s = 0; s < static_cast<int32_t>(plan.stages.size()); ++s) {
    plan::Stage& stage = plan.stages[s];
    const DeviceMemory one =
        laws.law(plan, s).stage_memory(laws.at(plan, s), stage.slice, /*in flight*/ 1);
    stage.state = one.parameters + one.gradients + one.optimizer + one.gathered;
    stage.activations = one.activations;
    stage.workspace = one.workspace;
  }
}

plan::PassCommunication communication_of(const PassPrice& pass) {
  return {pass.tensor, pass.context, pass.expert, pass.data};
}

bool law_knows(const plan::Plan& plan) {
  for (const cluster::Datacenter& datacenter : plan.cluster.datacenters) {
    if (!has_constants(datacenter.device)) return false;
  }
  return true;
}

plan::StageCost cost_by_law(const IterationLaw& law, const Configuration& c, const plan::Plan& plan,
                            int32_t stage) {
  const StageParts parts = law.stage_parts(c, plan.stages[static_cast<size_t>(stage)].slice);
  plan::StageCost cost = {
      .forward = parts.forward.total(),
      .backward = parts.backward.total(),
      .recompute = parts.recompute.total(),
      .update = parts.update + (stage < plan.parallelism.pipeline ? parts.overhead : 0_s),
      .reduce = parts.gradients,
      .reduce_hidden = parts.gradients_hidden,
      .forward_communication = communication_of(parts.forward),
      .backward_communication = communication_of(parts.backward),
      .recompute_communication = communication_of(parts.recompute)};
  // The last stage's backward pass follows its forward pass at once; stacks recompute there, too.
  if (plan.may_recompute(static_cast<size_t>(stage))) return cost;
  cost.backward += cost.recompute;
  cost.backward_communication += cost.recompute_communication;
  cost.recompute = 0_s;
  cost.recompute_communication = {};
  return cost;
}

void price_by_law(const LawsOfPlan& laws, plan::Plan& plan) {
  for (int32_t s = 0; s < static_cast<int32_t>(plan.stages.size()); ++s) {
    plan::Stage& stage = plan.stages[s];
    const IterationLaw& law = laws.law(plan, s);
    const Configuration c = laws.at(plan, s);
    const bool sums_as_it_goes = c.zero == 3 || (c.sums_each_microbatch() && c.microbatches() > 1);
    stage.cost = cost_by_law(law, c, plan, s);
    for (plan::StageCostIn& other : stage.elsewhere) {
      const auto* there = plan.cluster.find(other.datacenter);
      other.cost = cost_by_law(
          laws.in(static_cast<size_t>(there - plan.cluster.datacenters.data())), c, plan, s);
    }
    // Nothing once per iteration where every backward pass has its sum.
    stage.gradients = sums_as_it_goes
                          ? Bytes{}
                          : Bytes{law.parameters_held(c, stage.slice) * plan::gradient_bytes(plan)};
  }
  plan.cost_source = law_knows(plan) ? plan::CostSource::kTombolo : plan::CostSource::kRoofline;
  plan.constants = constants_digest();
}

// The replicas of a stage sum their gradients in a ring; its slowest hop decides. All shards of a
// rank pass theirs on side by side, and nothing begins before the last backward pass is over.
void price_reduction(plan::Plan& plan) {
  if (plan.replicas() == 1) return;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.replicas_lie_apart(static_cast<int32_t>(s))) continue;
    const std::vector<int32_t> ring = plan.replicas_of(static_cast<int32_t>(s));
    AllReduce what{
        .size = plan.stages[s].gradients * static_cast<double>(plan.ranks[ring.front()].shards),
        .ranks = plan.replicas()};
    for (size_t i = 0; i < ring.size(); ++i) {
      const plan::Channel hop = plan::channel_between(plan, ring[i], ring[(i + 1) % ring.size()]);
      what.rate = i == 0 ? hop.rate : std::min(what.rate, hop.rate);
      what.latency = std::max(what.latency, hop.latency);
    }
    plan.stages[s].cost.reduce = ring_all_reduce(what);
    plan.stages[s].cost.reduce_hidden = 0_s;
    if (plan.parallelism.zero == 0) continue;
    // New parameters go round after the update: the second half of a ring, in the precision that
    // passes read.
    what.size =
        what.size * (plan::element_bytes(plan.training.precision) / plan::gradient_bytes(plan));
    plan.stages[s].cost.update += ring_all_reduce(what) / 2;
  }
}

// Of a Plan whose density may change, that of its first iteration: an exchange alone takes kExchangeFill of what the
// slowest stage computes and can hide it, as in a run (steer/tune/rate_controller.h). The time of an exchange is a
// constant and a part that grows with the density.
void choose_first_density(plan::Plan& plan) {
  if (!plan.exchange || !plan.exchange->density_changes() || plan.exchange->density) return;
  const double lowest = plan.exchange->density_range[0], highest = plan.exchange->density_range[1];
  Seconds computing;
  for (const plan::Stage& stage : plan.stages) {
    const Seconds one = stage.cost.forward + stage.cost.recompute + stage.cost.backward;
    computing = std::max(computing, one * real(plan.microbatches()));
  }
  // With staleness an exchange has a whole iteration; else the last backward pass and the next forward.
  const double hides = plan.exchange->hides_exchange(plan.microbatches());
  const auto takes = [&](double density, int32_t stage) {
    plan.exchange->density = density;
    return exchange_alone(plan, stage);
  };
  double density = highest;
  for (int32_t s = 0; s < std::ssize(plan.stages); ++s) {
    if (!plan.replicas_lie_apart(s)) continue;
    const Seconds at_lowest = takes(lowest, s), at_highest = takes(highest, s);
    if (at_highest <= at_lowest) continue;
    const double room =
        (computing * hides * plan::kExchangeFill - at_lowest) / (at_highest - at_lowest);
    density = std::min(density, lowest + std::max(room, 0.0) * (highest - lowest));
  }
  plan.exchange->density = std::max(lowest, plan::two_digits_down(density));
}

}  // namespace

Result<plan::Plan> make_plan(const plan::Job& job, const plan::Hardware* hardware) {
  if (job.parallelism.microbatches_by_speed) {
    return make_plan(TRY(with_batch_by_speed(job, hardware)), hardware);
  }
  plan::Plan plan = TRY(plan::lay_out(job));
  if (plan.exchange && plan.exchange->mode_is_auto) {
    if (plan.replicas_lie_apart())
      return unusable(fmt::format("{}: [exchange] mode = \"auto\" is not chosen yet", job.file),
                      "a mode that is named");
    plan.exchange->mode_is_auto = false;  // has no effect, as all of [exchange]
  }
  if (!job.model) return plan;  // its [stage_times] say all there is to say
  const LawsOfPlan laws = TRY(LawsOfPlan::make(job, plan));
  price_memory(laws, plan);
  if (job.stage_times) {  // which hold on all devices
    choose_first_density(plan);
    return plan;
  }
  for (int32_t s = 0; s < std::ssize(plan.stages); ++s) {
    for (const size_t there : plan::unlike_datacenters(plan, s)) {
      plan.stages[static_cast<size_t>(s)].elsewhere.push_back(
          {plan.cluster.datacenters[there].name, {}});
    }
  }
  if (hardware) {
    TRY(price_by_profile(job, *hardware, plan));
    price_reduction(plan);
  } else {
    price_by_law(laws, plan);
  }
  choose_first_density(plan);
  for (int32_t s = 0; s < static_cast<int32_t>(plan.stages.size()); ++s) {
    if (!plan.replicas_lie_apart(s)) continue;
    plan::Stage& stage = plan.stages[static_cast<size_t>(s)];
    const Seconds alone = exchange_alone(plan, s);
    stage.cost.reduce = alone;
    stage.cost.reduce_hidden = 0_s;
    for (plan::StageCostIn& other : stage.elsewhere) {
      other.cost.reduce = alone;
      other.cost.reduce_hidden = 0_s;
    }
  }
  return plan;
}

std::optional<double> mfu_of(const plan::Plan& plan, Seconds iteration) {
  if (plan.cost_source == plan::CostSource::kStageTimes || iteration.value <= 0) return {};
  FlopsPerSecond peak;
  for (const layout::Placement& placement : plan.ranks) {
    peak += usable_peak(plan.device_of(placement.rank),
                        plan.training.precision == plan::Precision::kFp8) *
            real(placement.shards);
  }
  return model_flops(plan.model, plan.training.global_batch) / (peak * iteration);
}

}  // namespace tombolo::cost
