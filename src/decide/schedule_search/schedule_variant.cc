#include "decide/schedule_search/schedule_variant.h"

#include <algorithm>

#include "base/check.h"
#include "predict/cost/price_plan.h"
#include "spec/plan/job_value.h"

namespace tombolo::schedule_search {
namespace {

// The job that a Plan was made from, as far as its layout and model go.
plan::Job job_of(const plan::Plan& plan) {
  plan::Job job;
  static_cast<plan::Decisions&>(job) = plan;
  job.file = plan.name;
  if (plan.has_model()) job.model = plan.model;  // imagined models send nothing
  layout::say_datacenters(plan.ranks, job.parallelism);
  return job;
}

// The stages that lie at each position.
std::vector<std::vector<size_t>> stages_by_position(const plan::Plan& plan) {
  std::vector<std::vector<size_t>> at(static_cast<size_t>(plan.parallelism.pipeline));
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    at[static_cast<size_t>(plan.position_of(static_cast<int32_t>(s)))].push_back(s);
  }
  return at;
}

// As many layers per position as before, spread over its chunks; empty where the split was free.
std::vector<int64_t> layers_of_chunks(const plan::Plan& plan, const ScheduleVariant& variant) {
  if (plan.parallelism.layers_per_stage.empty()) return {};
  const auto positions = static_cast<int32_t>(plan.parallelism.pipeline);
  std::vector<int64_t> of_position(static_cast<size_t>(positions), 0);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    of_position[static_cast<size_t>(plan.position_of(static_cast<int32_t>(s)))] +=
        plan.stages[s].slice.layers;
  }
  std::vector<int64_t> layers;
  for (int32_t s = 0; s < positions * variant.chunks; ++s) {
    const int32_t position =
        layout::position_of(layout::mapping_of(variant.schedule), s, positions);
    const int64_t all = of_position[static_cast<size_t>(position)];
    const int64_t chunk = s / positions;
    layers.push_back(all / variant.chunks + (chunk < all % variant.chunks ? 1 : 0));
  }
  return layers;
}

}  // namespace

PositionWork work_of(const plan::Plan& plan) {
  const std::vector<std::vector<size_t>> at = stages_by_position(plan);
  PositionWork work(at.size());
  for (size_t position = 0; position < at.size(); ++position) {
    for (const size_t s : at[position]) {
      const plan::StageCost& cost = plan.stages[s].cost;
      work[position].forward += cost.forward;
      work[position].backward += cost.backward;
      auto& weights = work[position].backward_weight;
      if (cost.backward_weight) weights = weights.value_or(0_s) + *cost.backward_weight;
      work[position].recompute += cost.recompute;
      work[position].update += cost.update;
      work[position].reduce += cost.reduce;
    }
  }
  const auto last = static_cast<size_t>(plan.position_of(std::ssize(plan.stages) - 1));
  const size_t before = last == 0 ? at.size() - 1 : last - 1;
  if (before != last && work[before].forward.value > 0) {
    work[last].recompute = work[last].forward * (work[before].recompute / work[before].forward);
  }
  return work;
}

plan::Plan with_work(plan::Plan plan, const PositionWork& work) {
  const std::vector<std::vector<size_t>> at = stages_by_position(plan);
  CHECK(work.size() == at.size(), "work of {} positions for {}", work.size(), at.size());
  const PositionWork now = work_of(plan);
  for (size_t position = 0; position < at.size(); ++position) {
    const auto count = static_cast<double>(at[position].size());
    for (const size_t s : at[position]) {
      plan::StageCost& cost = plan.stages[s].cost;
      const auto share = [&](Seconds part, Seconds all) {
        return all.value > 0 ? part / all : 1 / count;
      };
      const double forward = share(cost.forward, now[position].forward);
      cost.recompute = plan.may_recompute(s) ? work[position].recompute * forward : 0_s;
      const double backward = share(cost.backward, now[position].backward);
      cost.backward = work[position].backward * backward;
      cost.backward_weight = work[position].backward_weight;
      if (cost.backward_weight) *cost.backward_weight = *cost.backward_weight * backward;
      cost.forward = work[position].forward * forward;
      cost.update = work[position].update * share(cost.update, now[position].update);
    }
  }
  return plan;
}

Result<plan::Plan> vary(const plan::Plan& plan, const ScheduleVariant& variant) {
  plan::Job job = job_of(plan);
  layout::Parallelism& p = job.parallelism;
  p.set_variant(variant);
  p.layers_per_stage = layers_of_chunks(plan, variant);
  const bool imagined = plan.cost_source == plan::CostSource::kStageTimes;
  const PositionWork work = work_of(plan);
  if (imagined) {
    plan::StageTimes times;  // for the split alone: all alike
    times.forward = times.backward = times.recompute = {1_s};
    times.transfer = plan.wan_transfer;
    if (plan.wan_transfer) times.latency = plan.wan_latency;
    times.in_flight = plan.in_flight;
    times.reduce = work.front().reduce / static_cast<double>(variant.chunks);
    job.stage_times = times;
  }
  plan::Plan out = TRY(cost::make_plan(job));
  out.parallelism.datacenter_per_stage = plan.parallelism.datacenter_per_stage;
  out.parallelism.datacenter_per_replica = plan.parallelism.datacenter_per_replica;
  out.ranks = plan.ranks;
  out.measured_links = plan.measured_links;
  const bool by_law = plan.cost_source == plan::CostSource::kRoofline ||
                      plan.cost_source == plan::CostSource::kTombolo;
  if (by_law) return out;
  if (plan.on_unlike_devices()) {
    return unusable(
        "times measured on different devices hold for the schedule they were measured with",
        "the schedule in the job, and tombolo profile on each kind of device");
  }
  out.cost_source = plan.cost_source;
  return with_work(std::move(out), work);
}

Result<plan::Plan> with_schedule(const plan::Plan& plan, layout::ScheduleKind kind) {
  return vary(plan, plan.parallelism.variant_as(kind));
}

std::vector<plan::PairCost> pairs_for(const plan::Plan& base, const plan::Plan& folded,
                                      const std::optional<plan::LayerPair>& layer) {
  if (folded.parallelism.mapping() != layout::StageMapping::kFold) return {};
  const bool has = !base.pairs.empty() && base.stages.size() == folded.stages.size() &&
                   base.parallelism.mapping() == layout::StageMapping::kFold;
  if (has) return base.pairs;
  return layer ? plan::pair_costs(folded, *layer) : std::vector<plan::PairCost>{};
}

plan::Plan one_cell(const plan::Plan& plan) {
  const int64_t cell = plan.parallelism.sharing_in_use() == layout::Sharing::kTemporal
                           ? plan.parallelism.pipelines_per_cell()
                           : 1;
  plan::Plan out = plan;
  out.training.global_batch = plan.microbatches() * plan.training.micro_batch * cell;
  out.parallelism.data = cell;
  if (out.parallelism.cell) out.parallelism.cell = cell;
  out.given.reset();
  out.ranks.clear();
  for (const layout::Placement& placement : plan.ranks) {
    if (placement.replica >= cell) continue;
    out.ranks.push_back(placement);
    out.ranks.back().rank = static_cast<int32_t>(out.ranks.size()) - 1;
  }
  return out;
}

schedule::Schedule for_every_cell(const schedule::Schedule& of_one,
                                  const schedule::PipelineShape& one,
                                  const schedule::PipelineShape& all) {
  CHECK(all.replicas % one.replicas == 0, "{} pipelines do as {}", all.replicas, one.replicas);
  schedule::Schedule out{of_one.name, {}};
  for (int32_t rank = 0; rank < all.ranks(); ++rank) {
    const int32_t position = rank / all.replicas;
    const int32_t pipeline = rank % all.replicas % one.replicas;
    const auto as = static_cast<size_t>(position * one.replicas + pipeline);
    out.ranks.push_back(of_one.ranks[as]);
    if (!of_one.pairs.empty()) out.pairs.push_back(of_one.pairs[as]);
  }
  for (const schedule::LinkOrder& link : of_one.links) {
    for (int32_t cell = 0; cell < all.replicas / one.replicas; ++cell) {
      out.links.push_back(schedule::of_later_cell(link, cell, one));
    }
  }
  for (int32_t replica = 0; !of_one.release.empty() && replica < all.replicas; ++replica) {
    out.release.push_back(of_one.release[static_cast<size_t>(replica % one.replicas)]);
  }
  return out;
}

}  // namespace tombolo::schedule_search
