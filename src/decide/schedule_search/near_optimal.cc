#include "decide/schedule_search/near_optimal.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "base/check.h"
#include "base/parallel.h"
#include "decide/schedule_search/justify.h"
#include "decide/schedule_search/order_search.h"
#include "decide/schedule_search/rule_search.h"
#include "spec/schedule/policy.h"

namespace tombolo::schedule_search {
namespace {

// A whole way to do it, of one cell.
struct Proposal {
  TriedSchedule candidate;
  schedule::CellOrders orders;
};

std::vector<int32_t> peaks_of(const schedule::CellOrders& orders,
                              const schedule::PipelineShape& shape) {
  std::vector<int32_t> peaks(static_cast<size_t>(shape.positions()));
  const std::vector<int64_t> of_ranks = schedule::peak_in_flight({"", orders.ranks});
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    int32_t& peak = peaks[rank / static_cast<size_t>(shape.cell)];
    peak = std::max(peak, static_cast<int32_t>(of_ranks[rank]));
  }
  return peaks;
}

Proposal propose(std::string name, const schedule::PipelineShape& shape,
                 const schedule::Memory& memory, schedule::CellPlay play) {
  Proposal out{{std::move(name), play.makespan}, std::move(play.orders)};
  const std::vector<int32_t> peaks = peaks_of(out.orders, shape);
  for (size_t position = 0; position < peaks.size(); ++position) {
    out.candidate.in_flight = std::max(out.candidate.in_flight, peaks[position]);
    if (memory.in_flight.empty()) continue;
    out.candidate.fits = out.candidate.fits && peaks[position] <= memory.in_flight[position];
  }
  return out;
}

bool splits(const schedule::CellOrders& orders) {
  return std::any_of(orders.ranks.front().begin(), orders.ranks.front().end(),
                     [](const action::Action& action) {
                       return action.kind == action::ActionKind::kBackwardWeight;
                     });
}

// The schedules of the literature that take this shape, each under its best discipline.
std::vector<Proposal> published(const schedule::PipelineShape& shape, const schedule::Times& times,
                                const schedule::Memory& memory, bool split_backward) {
  std::vector<Proposal> out;
  std::vector<layout::Discipline> disciplines{layout::Discipline::kGreedy};
  if (!shape.shared.empty() && shape.cell > 1) {
    disciplines = {layout::Discipline::kGreedy, layout::Discipline::kReleased,
                   layout::Discipline::kStrict};
  }
  for (const layout::ScheduleTraits& row : layout::kSchedules) {
    if (row.mapping != shape.mapping) continue;
    const schedule::Policy& policy = schedule::policy_of(row.kind);
    std::optional<Proposal> best;
    for (const layout::Discipline discipline : disciplines) {
      schedule::CellPlay play;
      if (policy.rules) {
        schedule::Rules rules = policy.rules(shape, times, discipline);
        if (row.has(layout::kKeepsToMemory)) rules.in_flight = memory.in_flight;
        play = schedule::play_cell(shape, times, rules);
      } else {
        std::vector<schedule::RankActions> ranks;
        for (const schedule::RankActions& order : policy.order_compute(shape, times)) {
          ranks.insert(ranks.end(), static_cast<size_t>(shape.cell), order);
        }
        play = schedule::play_links(shape, times, schedule::cell_rules(shape, times, discipline),
                                    std::move(ranks));
      }
      if (!play.finished || (!split_backward && splits(play.orders))) continue;
      if (best && best->candidate.makespan <= play.makespan) continue;
      best = propose(std::string(row.name), shape, memory, std::move(play));
    }
    if (best) out.push_back(*std::move(best));
  }
  return out;
}

Status check_room(const schedule::PipelineShape& shape, const schedule::Memory& memory) {
  for (size_t position = 0; position < memory.in_flight.size(); ++position) {
    if (memory.in_flight[position] >= 1) continue;
    return infeasible(fmt::format("position {} of {} has memory for {} microbatches in flight, "
                                  "and needs 1",
                                  position, shape.positions(), memory.in_flight[position]),
                      "more memory, recompute = \"full\", a smaller micro_batch or more stages");
  }
  return {};
}

// Those that fit first, then the shortest, then the simplest.
void rank(std::vector<Proposal>& proposals) {
  std::stable_sort(proposals.begin(), proposals.end(), [](const Proposal& a, const Proposal& b) {
    if (a.candidate.fits != b.candidate.fits) return a.candidate.fits;
    return a.candidate.makespan < b.candidate.makespan;
  });
}

// The orders of one proposal, improved with `steps` steps: as a whole, then along the longest path.
Proposal improved(const Proposal& from, const schedule::PipelineShape& cell,
                  const schedule::Times& times, const schedule::Memory& memory, SimDuration enough,
                  int64_t steps, bool right_before) {
  constexpr int64_t kStepsPerPlacement = 30;  // of a computation, with a heap and gaps
  constexpr int64_t kPassesMax = 400, kEvaluationsMax = 20'000;
  schedule::CellOrders orders = from.orders;
  if (cell.chunks == 1) {
    detail::Justify justify(cell, times, memory, orders, right_before);
    const int64_t passes =
        steps / 2 / (static_cast<int64_t>(justify.operations()) * kStepsPerPlacement);
    justify.improve({.passes_max = std::min(kPassesMax, passes), .enough = enough});
    if (justify.makespan() < from.candidate.makespan) orders = justify.orders();
  }
  detail::OrderSearch search(cell, times, memory, orders, right_before);
  const int64_t evaluations = steps / 2 / static_cast<int64_t>(search.operations());
  search.improve({.evaluations_max = std::min(kEvaluationsMax, evaluations), .enough = enough});
  return propose(from.candidate.name + ", improved", cell, memory,
                 {search.orders(), search.makespan(), true});
}

// Adds what becomes of the first few when their orders are improved.
void improve(std::vector<Proposal>& proposals, const schedule::PipelineShape& cell,
             const schedule::Times& times, const schedule::Memory& memory, SimDuration enough,
             const SearchOptions& options, int threads) {
  constexpr size_t kStarts = 4;
  // Interleaved messages come in the order of their sends, which moves would not keep.
  if (cell.mapping == layout::StageMapping::kLoop) return;
  size_t starts = 0;
  while (starts < std::min(kStarts, proposals.size()) && proposals[starts].candidate.fits) ++starts;
  if (starts == 0 || proposals.front().candidate.makespan <= enough) return;
  std::vector<Proposal> results(starts);
  parallel_for(starts, threads, [&](size_t i) {
    results[i] =
        improved(proposals[i], cell, times, memory, enough,
                 options.steps_max / static_cast<int64_t>(starts), options.recompute_right_before);
  });
  for (Proposal& result : results) proposals.push_back(std::move(result));
}

// Times in their greatest common divisor: a search that sees small integers finds the same for all
// multiples of them.
int64_t unit_of(const schedule::Times& times) {
  int64_t unit = 0;
  for (const schedule::StageDurations& stage : times.stages) {
    for (const SimDuration each :
         {stage.forward, stage.backward_input, stage.backward_weight, stage.recompute}) {
      unit = std::gcd(unit, each.ns);
    }
  }
  for (const SimDuration each : times.transfer) unit = std::gcd(unit, each.ns);
  for (const SimDuration each : times.latency) unit = std::gcd(unit, each.ns);
  return std::max<int64_t>(unit, 1);
}

schedule::Times in_units(schedule::Times times, int64_t unit) {
  for (schedule::StageDurations& stage : times.stages) {
    for (SimDuration* each :
         {&stage.forward, &stage.backward_input, &stage.backward_weight, &stage.recompute}) {
      each->ns /= unit;
    }
  }
  for (SimDuration& each : times.transfer) each.ns /= unit;
  for (SimDuration& each : times.latency) each.ns /= unit;
  return times;
}

}  // namespace

Result<Found> near_optimal(const schedule::PipelineShape& shape, const schedule::Times& in_ns,
                           const schedule::Memory& memory, const SearchOptions& options) {
  if (!shape.groups.empty()) {
    return unusable(
        "a search orders one pipeline for all, and those of a cell cross the WAN "
        "differently",
        "a schedule by its name, or sharing = \"spatial\"");
  }
  TRY(check_room(shape, memory));
  const int64_t unit = unit_of(in_ns);
  const schedule::Times times = in_units(in_ns, unit);
  schedule::PipelineShape cell = shape;  // all cells do the same
  cell.replicas = shape.cell;
  Found found;
  found.bounds = schedule_proof::lower_bounds(shape, in_ns, memory, options.split_backward);
  const SimDuration bound{found.bounds.front().value.ns / unit};
  const int threads = threads_or_all(options.threads);

  std::vector<Proposal> proposals = published(cell, times, memory, options.split_backward);
  rank(proposals);
  const auto bound_is_met = [&] {
    return !proposals.empty() && proposals.front().candidate.fits &&
           proposals.front().candidate.makespan <= bound;
  };
  const detail::KnobSpace space(cell, times, memory);
  for (const bool split : {false, true}) {
    if ((split && !options.split_backward) || bound_is_met()) continue;
    // Large shapes are played less often, but never less than the grid.
    constexpr int64_t kComputationsPlayed = 6'000'000, kPlaysMin = 90;
    const int64_t computations = int64_t{cell.stages} * cell.cell * cell.microbatches * 3;
    const int64_t plays_max =
        std::min(options.plays_max, std::max(kPlaysMin, kComputationsPlayed / computations));
    const int64_t share = split ? 2 : 1;
    const int64_t plays = options.split_backward ? share * plays_max / 3 : plays_max;
    for (detail::Trial& trial : detail::search_rules(
             cell, times, memory,
             {.split_backward = split, .threads = threads, .plays_max = plays, .enough = bound})) {
      proposals.push_back(propose(space.text(trial.knobs), cell, memory, std::move(trial.play)));
    }
    rank(proposals);
  }
  improve(proposals, cell, times, memory, bound, options, threads);
  rank(proposals);
  if (proposals.empty() || !proposals.front().candidate.fits) {
    return infeasible("no schedule keeps to so few microbatches in flight",
                      "memory for more microbatches, or fewer virtual stages");
  }
  for (Proposal& proposal : proposals) {
    proposal.candidate.makespan = proposal.candidate.makespan * unit;
    for (SimDuration& release : proposal.orders.release) release = release * unit;
  }
  const Proposal& winner = proposals.front();
  found.schedule = schedule::complete(winner.candidate.name, shape, winner.orders);
  found.makespan = schedule::makespan_of(found.schedule, shape, in_ns);
  CHECK(found.makespan <= winner.candidate.makespan, "\"{}\" takes {} ns, played {} ns",
        winner.candidate.name, found.makespan.ns, winner.candidate.makespan.ns);
  std::set<std::string> named;
  for (const Proposal& proposal : proposals) {
    if (named.insert(proposal.candidate.name).second) found.tried.push_back(proposal.candidate);
  }
  found.tried.front().makespan = found.makespan;
  return found;
}

}  // namespace tombolo::schedule_search
