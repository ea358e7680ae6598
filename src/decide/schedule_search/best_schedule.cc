#include "decide/schedule_search/best_schedule.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/check.h"
#include "decide/schedule_search/schedule_candidates.h"
#include "decide/schedule_search/why_schedule.h"

namespace tombolo::schedule_search {
namespace {

using detail::is_imagined;
using Tried = detail::TriedSchedule;

// Of those that `eligible` admits, the one with the shortest time; the first of equals.
template <typename Eligible, typename Time>
std::optional<size_t> fastest(const std::vector<Tried>& all, Eligible eligible, Time time) {
  std::optional<size_t> best;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].candidate.makespan || !eligible(all[i])) continue;
    if (!best || time(all[i]) < time(all[*best])) best = i;
  }
  return best;
}

Status simulate(Tried& tried) {
  if (tried.given) {
    const schedule::Shape shape = schedule::shape_of(tried.plan);
    tried.of_one.name = tried.candidate.name;
    tried.plan.given = schedule::to_given(
        for_every_cell(tried.of_one, schedule::shape_of(one_cell(tried.plan)), shape));
  }
  tried.simulation = TRY(during(sim::simulate(tried.plan), "simulating " + tried.candidate.name));
  tried.candidate.iteration = tried.simulation->iteration;
  return {};
}

// Nothing fits: which position is furthest from holding one micro-batch.
tl::unexpected<Error> nothing_fits(const plan::Plan& base, const std::vector<Tried>& all) {
  const Result<plan::Plan> line = vary(base, {});
  if (line && !is_imagined(*line)) {
    const auto replicas = static_cast<size_t>(line->replicas());
    size_t worst = 0;
    const auto need = [&](size_t s) { return line->stages[s].state + line->stages[s].activations; };
    const auto share = [&](size_t s) {
      return need(s) / line->device_of(static_cast<int32_t>(s * replicas)).memory;
    };
    for (size_t s = 1; s < line->stages.size(); ++s) {
      if (share(s) > share(worst)) worst = s;
    }
    const cluster::Device& device = line->device_of(static_cast<int32_t>(worst * replicas));
    const auto gib = [](Bytes bytes) { return fmt::format("{:.1f} GiB", bytes / 1_GiB); };
    if (share(worst) > 1) {
      return infeasible(
          fmt::format(
              "no schedule fits in memory: at position {}, weights, gradients and optimizer "
              "need {}, one micro-batch {}, and {} has {}",
              worst, gib(line->stages[worst].state), gib(line->stages[worst].activations),
              device.name, gib(device.memory)),
          "more stages, recompute = \"full\", or a smaller micro_batch");
    }
  }
  std::string obstacles;
  for (const Tried& tried : all) {
    if (tried.candidate.variant.schedule != "1f1b") continue;
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

Result<BestSchedule> best_schedule(const plan::Plan& plan, const BestScheduleOptions& options) {
  std::vector<Tried> all = detail::try_all(plan, options);
  if (options.incumbent) {
    all.insert(all.begin(), TRY(detail::try_incumbent(*options.incumbent)));
  }
  const auto makespan = [](const Tried& tried) { return *tried.candidate.makespan; };
  const auto temporal = [](const Tried& tried) {
    return tried.candidate.variant.sharing == plan::Sharing::kTemporal;
  };
  std::set<size_t> finalists;
  const auto admit = [&](auto eligible) {
    const std::optional<size_t> best = fastest(all, eligible, makespan);
    if (best) finalists.insert(*best);
  };
  admit([](const Tried&) { return true; });
  admit(temporal);
  admit([&](const Tried& tried) { return !temporal(tried); });
  admit([](const Tried& tried) { return !tried.candidate.splits; });
  admit([](const Tried& tried) { return tried.candidate.is_baseline; });
  admit([](const Tried& tried) { return tried.candidate.is_baseline && tried.candidate.is_named; });
  admit([](const Tried& tried) { return tried.candidate.family == "incumbent"; });
  if (finalists.empty()) return nothing_fits(plan, all);
  for (const size_t i : finalists) TRY(simulate(all[i]));

  // Simulated times decide; equal ones go to the shorter makespan, then to what was tried first.
  const auto simulated = [](const Tried& tried) {
    return std::pair{*tried.candidate.iteration, *tried.candidate.makespan};
  };
  const auto is_final = [](const Tried& tried) { return tried.candidate.iteration.has_value(); };
  const size_t winner = *fastest(all, is_final, simulated);

  BestSchedule best;
  best.plan = all[winner].plan;
  const plan::Plan one = one_cell(all[winner].plan);
  best.bound = schedule_proof::lower_bounds(schedule::shape_of(one), schedule::times_of(one),
                                            schedule::memory_of(one))
                   .front();

  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto key = [&](size_t i) {
      const ScheduleCandidate& candidate = all[i].candidate;
      return std::tuple{i != winner, !candidate.makespan,
                        candidate.makespan.value_or(SimDuration{})};
    };
    return key(a) < key(b);
  });
  const auto place_of = [&](auto eligible) -> std::optional<size_t> {
    const std::optional<size_t> found = fastest(
        all, [&](const Tried& tried) { return is_final(tried) && eligible(tried); }, simulated);
    if (!found) return std::nullopt;
    return std::find(order.begin(), order.end(), *found) - order.begin();
  };
  best.baseline_index = place_of([](const Tried& tried) { return tried.candidate.is_baseline; });
  best.published_index = place_of(
      [](const Tried& tried) { return tried.candidate.is_baseline && tried.candidate.is_named; });
  best.unsplit_index = place_of([](const Tried& tried) { return !tried.candidate.splits; });
  best.incumbent_index =
      place_of([](const Tried& tried) { return tried.candidate.family == "incumbent"; });
  for (const size_t i : order) best.candidates.push_back(all[i].candidate);

  const auto performed = [&](size_t i) {
    const ScheduleCandidate& candidate = all[i].candidate;
    return PerformedSchedule{
        candidate.family == "incumbent" ? "the schedule so far" : candidate.name, &all[i].plan,
        &all[i].simulation->trace, candidate.in_flight.value_or(0), candidate.splits};
  };
  const std::optional<size_t> rival =
      best.incumbent_index ? best.incumbent_index : best.baseline_index;
  if (rival && *rival != 0) {
    best.why = why_faster(performed(winner), performed(order[*rival]));
  }
  return best;
}

}  // namespace tombolo::schedule_search
