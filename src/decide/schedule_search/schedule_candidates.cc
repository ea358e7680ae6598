#include "decide/schedule_search/schedule_candidates.h"

#include <algorithm>
#include <set>

#include "decide/schedule_search/near_optimal.h"
#include "decide/schedule_search/pair_search.h"
#include "spec/schedule/policy.h"

namespace tombolo::schedule_search::detail {
namespace {

constexpr int64_t kChunksMax = 8;  // stages per rank of interleaved schedules

// One cell of a variant, as schedules see it.
struct Cell {
  plan::Plan plan;  // of all cells
  plan::Plan one;
  schedule::PipelineShape shape;
  schedule::Times times;
  schedule::Memory memory;
};

Result<Cell> lay_out(const plan::Plan& base, const ScheduleVariant& variant) {
  Cell cell;
  cell.plan = TRY(vary(base, variant));
  cell.one = one_cell(cell.plan);
  cell.shape = schedule::shape_of(cell.one);
  cell.times = schedule::times_of(cell.one);
  cell.memory = schedule::memory_of(cell.one);
  return cell;
}

std::string sharing_text(const ScheduleVariant& variant) {
  return variant.sharing == layout::Sharing::kTemporal ? fmt::format(", cells of {}", variant.cell)
                                                       : "";
}

std::string name_of(const ScheduleVariant& variant) {
  std::string name(to_name(variant.schedule));
  if (layout::mapping_of(variant.schedule) == layout::StageMapping::kLoop) {
    name += fmt::format(", {} stages per rank", variant.chunks);
  }
  if (variant.sharing == layout::Sharing::kTemporal) {
    name += fmt::format(", {}", to_name(variant.discipline));
  }
  return name + sharing_text(variant);
}

bool splits(const schedule::Schedule& schedule) {
  for (const schedule::RankActions& order : schedule.ranks) {
    for (const action::Action& action : order) {
      if (action.kind == action::ActionKind::kBackwardWeight) return true;
    }
  }
  return false;
}

// Takes the schedule of one cell if the memory holds it.
void take(const Cell& cell, schedule::Schedule of_one, TriedSchedule& tried) {
  ScheduleCandidate& candidate = tried.candidate;
  const std::vector<int64_t> peaks = schedule::peak_in_flight(of_one);
  const double whole = cell.shape.chunks;
  size_t worst = 0;  // the rank that is furthest from fitting
  const auto over = [&](size_t rank) {
    const size_t position = rank / static_cast<size_t>(cell.shape.replicas);
    return cell.memory.in_flight.empty() ? peaks[rank]
                                         : peaks[rank] - cell.memory.in_flight[position];
  };
  for (size_t rank = 1; rank < peaks.size(); ++rank) {
    if (over(rank) > over(worst)) worst = rank;
  }
  candidate.in_flight = static_cast<double>(*std::max_element(peaks.begin(), peaks.end())) / whole;
  candidate.splits = splits(of_one);
  if (is_imagined(cell.one) && !cell.memory.in_flight.empty() && over(worst) > 0) {
    const size_t position = worst / static_cast<size_t>(cell.shape.replicas);
    candidate.obstacle =
        fmt::format("needs memory for {:.3g} microbatches at position {}, which has it for {:.3g}",
                    static_cast<double>(peaks[worst]) / whole, position,
                    cell.memory.in_flight[position] / whole);
    return;
  }
  if (const Status fits = schedule::check_memory(cell.one, of_one); !fits) {
    candidate.obstacle = fits.error().message;
    return;
  }
  candidate.makespan = schedule::makespan_of(of_one, cell.shape, cell.times);
  tried.of_one = std::move(of_one);
}

// Of a fold: its pairs co-executed, where it is known how long they take.
std::optional<TriedSchedule> try_with_pairs(const plan::Plan& base, const ScheduleVariant& variant,
                                            const std::optional<plan::LayerPair>& layer) {
  if (!traits_of(variant.schedule).has(layout::kPairs) || variant.chunks != 2) return std::nullopt;
  Result<Cell> cell = lay_out(base, variant);
  if (!cell) return std::nullopt;  // without pairs it was told
  cell->plan.pairs = pairs_for(base, cell->plan, layer);
  if (cell->plan.pairs.empty()) return std::nullopt;
  TriedSchedule tried;
  tried.candidate = {.name = name_of(variant) + ", overlapped F&B",
                     .family = std::string(to_name(variant.schedule)),
                     .variant = variant,
                     .pairs = true};
  if (const Status sound = plan::validate(cell->plan); !sound) {
    tried.candidate.obstacle = sound.error().message;
    return tried;
  }
  cell->one = one_cell(cell->plan);
  cell->shape = schedule::shape_of(cell->one);
  cell->times = schedule::times_of(cell->one);
  tried.plan = cell->plan;
  Result<schedule::Schedule> of_one = schedule::build(cell->one);
  if (!of_one) {
    tried.candidate.obstacle = of_one.error().message;
    return tried;
  }
  take(*cell, std::move(*of_one), tried);
  return tried;
}

// A fold whose pairs are searched, where that finds something shorter than the published ones.
std::optional<TriedSchedule> try_pair_search(const plan::Plan& base,
                                             const BestScheduleOptions& options) {
  const ScheduleVariant variant{.schedule = layout::first_schedule(
                                    layout::StageMapping::kFold, layout::kHalves | layout::kPairs),
                                .chunks = 2};
  Result<Cell> cell = lay_out(base, variant);
  if (!cell) return std::nullopt;  // without pairs it was told
  cell->plan.pairs = pairs_for(base, cell->plan, options.layer_pair);
  if (cell->plan.pairs.empty() || !plan::validate(cell->plan)) return std::nullopt;
  cell->one = one_cell(cell->plan);
  cell->shape = schedule::shape_of(cell->one);
  cell->times = schedule::times_of(cell->one);
  if (cell->shape.replicas > 1) return std::nullopt;
  constexpr int64_t kStepsMax = 200'000, kStepsPerPass = 4;
  const int64_t passes = int64_t{3} * cell->shape.stages * cell->shape.microbatches;
  // Of models with bytes the published orders need a layer more than a fold, and not a chunk:
  // whether what is found fits is asked afterwards.
  schedule::Memory memory = cell->memory;
  for (int32_t& most : memory.in_flight) {
    if (!is_imagined(cell->one)) most = std::max(most, cell->shape.stages + 1);
  }
  Result<PairsFound> found =
      search_pairs(cell->shape, cell->times, memory,
                   {.steps_max = std::min(kStepsMax, options.passes_max * kStepsPerPass / passes),
                    .split_backward = options.split_backward});
  if (!found || !found->improved) return std::nullopt;
  TriedSchedule tried;
  tried.candidate = {.name = fmt::format("found: {} with pairs, improved", found->start),
                     .family = "fold",
                     .variant = variant,
                     .pairs = true};
  tried.given = true;
  tried.plan = cell->plan;
  take(*cell, std::move(found->schedule), tried);
  return tried;
}

TriedSchedule try_named(const plan::Plan& base, const ScheduleVariant& variant) {
  TriedSchedule tried;
  tried.candidate = {.name = name_of(variant),
                     .family = std::string(to_name(variant.schedule)),
                     .variant = variant,
                     .is_published = true};
  Result<Cell> cell = lay_out(base, variant);
  if (!cell) {
    tried.candidate.obstacle = cell.error().message;
    return tried;
  }
  tried.plan = cell->plan;
  Result<schedule::Schedule> of_one = schedule::build(cell->one);
  if (!of_one) {
    tried.candidate.obstacle = of_one.error().message;
    return tried;
  }
  take(*cell, std::move(*of_one), tried);
  return tried;
}

// Rules that know no memory (Varuna's) with no more in flight than it holds.
TriedSchedule try_within_memory(const plan::Plan& base, const ScheduleVariant& variant) {
  TriedSchedule tried;
  tried.candidate = {.name = fmt::format("{}, kept to the memory", to_name(variant.schedule)),
                     .family = std::string(to_name(variant.schedule)),
                     .variant = variant};
  tried.given = true;
  Result<Cell> cell = lay_out(base, variant);
  if (!cell) {
    tried.candidate.obstacle = cell.error().message;
    return tried;
  }
  tried.plan = cell->plan;
  schedule::Rules rules =
      schedule::policy_of(variant.schedule).rules(cell->shape, cell->times, variant.discipline);
  rules.in_flight = cell->memory.in_flight;
  Result<schedule::Played> played =
      schedule::play(tried.candidate.name, cell->shape, cell->times, rules);
  if (!played) {
    tried.candidate.obstacle = played.error().message;
    return tried;
  }
  take(*cell, std::move(played->schedule), tried);
  return tried;
}

// What a family's search is to find, in a layout that the name stands for.
struct Search {
  std::string family;
  ScheduleVariant variant;
  bool split = false;
};

TriedSchedule try_search(const plan::Plan& base, const Search& search, int64_t passes,
                         int threads) {
  TriedSchedule tried;
  tried.candidate = {.name = search.family + sharing_text(search.variant),
                     .family = search.family,
                     .variant = search.variant};
  tried.given = true;
  Result<Cell> cell = lay_out(base, search.variant);
  if (!cell) {
    tried.candidate.obstacle = cell.error().message;
    return tried;
  }
  tried.plan = cell->plan;
  constexpr int64_t kPassesPerStage = 3;  // F, I and W, or F, R and B
  const int64_t per_play =
      kPassesPerStage * cell->shape.stages * cell->shape.microbatches * int64_t{cell->shape.cell};
  constexpr int64_t kPlaysMin = 8;
  constexpr int64_t kPlaysMax = 400;
  constexpr int64_t kStepsPerPass = 20;  // steps of improving orders, cheaper than passes
  Result<Found> found =
      near_optimal(cell->shape, cell->times, cell->memory,
                   {.split_backward = search.split,
                    .threads = threads,
                    .plays_max = std::clamp(passes / per_play, kPlaysMin, kPlaysMax),
                    .steps_max = passes * kStepsPerPass});
  if (!found) {
    tried.candidate.obstacle = found.error().message;
    return tried;
  }
  tried.candidate.name = "found: " + found->schedule.name +
                         (search.family == "line" ? "" : fmt::format(", {}ed", search.family)) +
                         sharing_text(search.variant);
  take(*cell, std::move(found->schedule), tried);
  return tried;
}

bool crosses_wan(const plan::Plan& plan) {
  return std::any_of(plan.ranks.begin(), plan.ranks.end(), [&](const layout::Placement& placement) {
    return placement.datacenter != plan.ranks.front().datacenter;
  });
}

// How the pipelines may share the WAN: each separately, or in cells of 2 or more.
std::vector<ScheduleVariant> sharings(const plan::Plan& plan) {
  std::vector<ScheduleVariant> out = {{}};
  if (!crosses_wan(plan)) return out;
  for (int64_t cell = 2; cell <= plan.parallelism.data; ++cell) {
    if (plan.parallelism.data % cell != 0) continue;
    out.push_back({.sharing = layout::Sharing::kTemporal,
                   .cell = cell,
                   .discipline = plan.parallelism.discipline});
  }
  return out;
}

// Stages per rank at the most: imagined models have as many layers as are asked for.
int64_t chunks_max_of(const plan::Plan& plan) {
  return plan.has_model() ? std::min(kChunksMax, plan.model.layers / plan.parallelism.pipeline)
                          : kChunksMax;
}

std::vector<ScheduleVariant> named_variants(const plan::Plan& plan) {
  std::vector<ScheduleVariant> out;
  const int64_t chunks_max = chunks_max_of(plan);
  const bool crosses = crosses_wan(plan);
  for (const layout::ScheduleTraits& row : layout::kSchedules) {
    const layout::StageMapping mapping = row.mapping;
    if (mapping == layout::StageMapping::kFold) out.push_back({.schedule = row.kind, .chunks = 2});
    for (int64_t chunks = 2; mapping == layout::StageMapping::kLoop && chunks <= chunks_max;
         ++chunks) {
      out.push_back({.schedule = row.kind, .chunks = chunks});
    }
    if (mapping != layout::StageMapping::kLine) continue;
    for (ScheduleVariant variant : sharings(plan)) {
      variant.schedule = row.kind;
      if (row.sharing == layout::Sharing::kTemporal &&
          variant.sharing == layout::Sharing::kTemporal) {
        for (const auto& discipline : enum_names(layout::Discipline{})) {
          variant.discipline = discipline.value;
          out.push_back(variant);
        }
      } else {
        out.push_back(variant);
      }
    }
  }
  // What the name alone stands for in this Plan, if that is something else: more stages per rank,
  // or other cells. There is nothing to share within a datacenter, by one pipeline, or in a loop.
  for (const layout::ScheduleTraits& row : layout::kSchedules) {
    ScheduleVariant variant = plan.parallelism.variant_as(row.kind);
    if (variant.sharing == layout::Sharing::kSpatial) {
      variant.discipline = ScheduleVariant{}.discipline;
    } else if (!crosses || variant.cell == 1 || row.mapping != layout::StageMapping::kLine) {
      continue;
    }
    if (std::find(out.begin(), out.end(), variant) == out.end()) out.push_back(variant);
  }
  return out;
}

std::vector<Search> searches(const plan::Plan& plan, bool split) {
  std::vector<Search> out;
  for (const bool halves : {false, true}) {
    if (halves && !split) continue;
    for (ScheduleVariant variant : sharings(plan)) {
      out.push_back({"line", variant, halves});
      // Folds and loops need a name that stands for one: what is performed is given with it.
      if (variant.sharing == layout::Sharing::kTemporal || plan.parallelism.pipeline == 1) continue;
      if (chunks_max_of(plan) < 2) continue;
      for (const auto& [family, mapping] : {std::pair("fold", layout::StageMapping::kFold),
                                            std::pair("loop", layout::StageMapping::kLoop)}) {
        out.push_back({family, {.schedule = layout::first_schedule(mapping), .chunks = 2}, halves});
      }
    }
  }
  return out;
}

}  // namespace

std::vector<TriedSchedule> try_all(const plan::Plan& base, const BestScheduleOptions& options) {
  std::vector<TriedSchedule> all;
  for (const ScheduleVariant& variant : named_variants(base)) {
    TriedSchedule tried = try_named(base, variant);
    if (!options.split_backward && tried.candidate.splits) continue;
    const bool needs_memory = schedule::policy_of(variant.schedule).rules &&
                              !traits_of(variant.schedule).has(layout::kKeepsToMemory) &&
                              variant.sharing == layout::Sharing::kSpatial &&
                              !tried.candidate.makespan && tried.candidate.in_flight;
    all.push_back(std::move(tried));
    if (needs_memory) all.push_back(try_within_memory(base, {.schedule = variant.schedule}));
    std::optional<TriedSchedule> with_pairs = try_with_pairs(base, variant, options.layer_pair);
    if (with_pairs && (options.split_backward || !with_pairs->candidate.splits)) {
      all.push_back(std::move(*with_pairs));
    }
  }
  if (std::optional<TriedSchedule> found = try_pair_search(base, options)) {
    all.push_back(std::move(*found));
  }
  const std::vector<Search> list = searches(base, options.split_backward);
  const auto improved = std::count_if(list.begin(), list.end(),
                                      [](const Search& search) { return search.family != "loop"; });
  const int64_t passes = options.passes_max / improved;
  for (const Search& search : list) {
    all.push_back(try_search(base, search, passes, options.threads));
  }
  return all;
}

// What is performed today, under today's times.
Result<TriedSchedule> try_incumbent(const plan::Plan& incumbent) {
  TriedSchedule tried;
  tried.plan = incumbent;
  const layout::Parallelism& p = incumbent.parallelism;
  tried.candidate = {.name = "as before: " + (incumbent.given ? incumbent.given->name
                                                              : std::string(to_name(p.schedule))),
                     .family = "incumbent",
                     .variant = p.variant()};
  const schedule::Schedule schedule = TRY(schedule::build(incumbent));
  const schedule::PipelineShape shape = schedule::shape_of(incumbent);
  const std::vector<int64_t> peaks = schedule::peak_in_flight(schedule);
  tried.candidate.in_flight =
      static_cast<double>(*std::max_element(peaks.begin(), peaks.end())) / shape.chunks;
  tried.candidate.splits = splits(schedule);
  tried.candidate.makespan = schedule::makespan_of(schedule, shape, schedule::times_of(incumbent));
  return tried;
}

}  // namespace tombolo::schedule_search::detail
