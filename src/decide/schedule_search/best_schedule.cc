#include "decide/schedule_search/best_schedule.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "base/parallel.h"
#include "decide/schedule_search/schedule_candidates.h"
#include "decide/schedule_search/why_schedule.h"
#include "predict/cost/memory_remedy.h"
#include "predict/sim/simulate.h"

namespace tombolo::schedule_search {
namespace {

using detail::is_imagined;
using Tried = detail::TriedSchedule;

// A named schedule is what its Plan says; any other is carried by the Plan, for all cells.
void complete_plan(Tried& tried) {
  if (!tried.given) return;
  const schedule::PipelineShape shape = schedule::shape_of(tried.plan);
  tried.of_one.name = tried.candidate.name;
  tried.plan.given = schedule::to_given(
      for_every_cell(tried.of_one, schedule::shape_of(one_cell(tried.plan)), shape));
}

// All that can be taken, for the time of an iteration alone: Traces of all would need too much
// memory. What cannot be simulated cannot be taken.
void simulate_all(std::vector<Tried>& all, int threads) {
  parallel_for(all.size(), threads_or_all(threads), [&](size_t i) {
    ScheduleCandidate& candidate = all[i].candidate;
    if (!candidate.makespan) return;
    complete_plan(all[i]);
    const Result<SimDuration> iteration = sim::iteration_time(all[i].plan);
    if (iteration) {
      candidate.iteration = *iteration;
    } else {
      candidate.obstacle = iteration.error().message;
      candidate.makespan.reset();
    }
  });
}

// Nothing fits: which position is furthest from holding one microbatch.
tl::unexpected<Error> nothing_fits(const plan::Plan& base, const std::vector<Tried>& all) {
  const Result<plan::Plan> line = vary(base, {});
  if (line && !is_imagined(*line)) {
    const auto replicas = static_cast<size_t>(line->replicas());
    size_t worst = 0;
    const auto standing = [&](size_t s) {
      return line->stages[s].state + line->stages[s].workspace + line->prefill_memory();
    };
    const auto need = [&](size_t s) { return standing(s) + line->stages[s].activations; };
    const auto share = [&](size_t s) {
      return need(s) / line->device_of(static_cast<int32_t>(s * replicas)).memory;
    };
    for (size_t s = 1; s < line->stages.size(); ++s) {
      if (share(s) > share(worst)) worst = s;
    }
    const cluster::Device& device = line->device_of(static_cast<int32_t>(worst * replicas));
    if (share(worst) > 1) {
      return infeasible(
          fmt::format(
              "no schedule fits in memory: at position {}, weights, gradients, optimizer and "
              "workspace{} need {}, one microbatch {}, and {} has {}",
              worst, line->prefill ? " with the model of [prefill]" : "", brief(standing(worst)),
              brief(line->stages[worst].activations), device.name, brief(device.memory)),
          cost::less_prefill(base) + "more stages, recompute = \"full\", or a smaller micro_batch");
    }
  }
  std::string obstacles;
  for (const Tried& tried : all) {
    if (tried.candidate.variant.schedule != layout::default_schedule(1)) continue;
    obstacles = fmt::format(": {}: {}", tried.candidate.name, tried.candidate.obstacle);
    break;
  }
  return infeasible("no schedule can be taken" + obstacles, "more memory, or more stages");
}

}  // namespace

double time_saved(SimDuration now, SimDuration then) {
  return then.ns > 0 ? 1 - static_cast<double>(now.ns) / static_cast<double>(then.ns) : 0;
}

Result<schedule_proof::Exact> prove(const BestSchedule& best, bool split_backward,
                                    int64_t nodes_max) {
  CHECK(!best.candidates.empty(), "the proof of no schedule");
  const plan::Plan one = one_cell(best.plan);
  if (!one.pairs.empty()) {
    return unusable(
        "a proof goes through schedules whose passes run one after the other, and the "
        "Plan has pairs",
        "a Plan without pairs");
  }
  schedule_proof::ExactOptions options;
  options.split_backward = split_backward;
  options.nodes_max = nodes_max;
  auto exact = TRY(schedule_proof::solve_exact(schedule::shape_of(one), schedule::times_of(one),
                                               schedule::memory_of(one), options));
  // Whatever the search plays is one of the schedules that were looked at.
  CHECK(!exact.proven || exact.makespan <= *best.winner().makespan,
        "the shortest schedule takes {} ns, and {} takes {} ns", exact.makespan.ns,
        best.winner().name, best.winner().makespan->ns);
  return exact;
}

namespace {

// One cell is ordered, and all others do the same.
Status check_cells_are_alike(const plan::Plan& plan) {
  if (!plan.parallelism.microbatches_per_replica.empty()) {
    return unusable("parallelism.microbatches_per_replica: a search orders one pipeline for all",
                    "pipelines with equal numbers of microbatches, or a schedule by its name");
  }
  if (plan.on_unlike_devices()) {
    return unusable(
        "replicas of a stage work on different devices: a search orders one pipeline for all",
        "a schedule by its name");
  }
  for (const layout::Placement& at : plan.ranks) {
    const bool crosses = at.datacenter != plan.ranks[static_cast<size_t>(at.replica)].datacenter;
    if (!crosses || !plan.replicas_lie_apart()) continue;
    return unusable(
        "parallelism.datacenter_per_stage: a search orders one pipeline for all, and "
        "these cross the WAN differently",
        "a schedule by its name");
  }
  return {};
}

}  // namespace

Result<BestSchedule> best_schedule(const plan::Plan& plan, const BestScheduleOptions& options) {
  TRY(check_cells_are_alike(plan));
  std::vector<Tried> all = detail::try_all(plan, options);
  if (options.incumbent) {
    all.insert(all.begin(), TRY(detail::try_incumbent(*options.incumbent)));
  }
  simulate_all(all, options.threads);
  // Equal times go to the shorter makespan, then to what was tried first.
  std::stable_sort(all.begin(), all.end(), [](const Tried& a, const Tried& b) {
    const auto key = [](const ScheduleCandidate& candidate) {
      return std::tuple{!candidate.iteration, candidate.iteration.value_or(SimDuration{}),
                        candidate.makespan.value_or(SimDuration{})};
    };
    return key(a.candidate) < key(b.candidate);
  });
  if (all.empty() || !all.front().candidate.iteration) return nothing_fits(plan, all);

  BestSchedule best;
  best.plan = all.front().plan;
  const plan::Plan one = one_cell(best.plan);
  best.bound = schedule_proof::lower_bounds(schedule::shape_of(one), schedule::times_of(one),
                                            schedule::memory_of(one))
                   .front();
  for (const Tried& tried : all) best.candidates.push_back(tried.candidate);
  const auto first = [&](auto eligible) -> std::optional<size_t> {
    for (size_t i = 0; i < best.candidates.size() && best.candidates[i].iteration; ++i) {
      if (eligible(best.candidates[i])) return i;
    }
    return std::nullopt;
  };
  best.baseline_index = first([](const ScheduleCandidate& c) { return c.is_published; });
  best.unsplit_index = first([](const ScheduleCandidate& c) { return !c.splits; });
  best.unsplit_baseline_index =
      first([](const ScheduleCandidate& c) { return c.is_published && !c.splits; });
  best.incumbent_index = first([](const ScheduleCandidate& c) { return c.family == "incumbent"; });

  const std::optional<size_t> rival =
      best.incumbent_index ? best.incumbent_index : best.baseline_index;
  if (rival && *rival != 0) {
    const sim::Simulation fast = TRY(sim::simulate(all.front().plan));
    const sim::Simulation slow = TRY(sim::simulate(all[*rival].plan));
    const auto performed = [&](const Tried& tried, const sim::Simulation& simulation) {
      const ScheduleCandidate& candidate = tried.candidate;
      return PerformedSchedule{
          candidate.family == "incumbent" ? "the schedule so far" : candidate.name, &tried.plan,
          &simulation.trace, candidate.in_flight.value_or(0), candidate.splits};
    };
    best.why = why_faster(performed(all.front(), fast), performed(all[*rival], slow));
  }
  return best;
}

}  // namespace tombolo::schedule_search
