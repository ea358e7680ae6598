#include "spec/schedule/schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "spec/schedule/passes.h"
#include "spec/schedule/policy.h"

namespace tombolo::schedule {
namespace {

using action::Action;
using action::ActionKind;

// Whether the policy can order this shape; mistakes of the caller are CHECKed, those of the user
// are returned as errors.
Status check_shape(layout::ScheduleKind kind, const PipelineShape& shape) {
  const std::string_view name = name_of(kind);
  CHECK(shape.stages >= 1 && shape.microbatches >= 1 && shape.replicas >= 1 && shape.chunks >= 1,
        "{} stages, {} microbatches, {} replicas, {} chunks", shape.stages, shape.microbatches,
        shape.replicas, shape.chunks);
  CHECK(shape.cell >= 1 && shape.replicas % shape.cell == 0, "cells of {} of {} pipelines",
        shape.cell, shape.replicas);
  CHECK(shape.stages % shape.chunks == 0, "{} stages in chunks of {}", shape.stages, shape.chunks);
  CHECK(shape.groups.empty() || shape.groups.size() + 1 == static_cast<size_t>(shape.stages),
        "groups of {} boundaries for {} stages", shape.groups.size(), shape.stages);
  CHECK(shape.recompute.empty() || shape.recompute.size() == static_cast<size_t>(shape.stages),
        "recompute is given for {} of {} stages", shape.recompute.size(), shape.stages);
  const layout::StageMapping mapping = mapping_of(kind);
  if (const layout::ChunkRefusal no = why_not_chunks(kind, shape.chunks); !no.why.empty()) {
    return unusable(fmt::format("{}, and virtual_stages = {}", no.why, shape.chunks), no.hint);
  }
  if (shape.chunks > 1 && !shape.shared.empty()) {
    return unusable(
        fmt::format(
            "schedule = \"{}\" holds {} stages per rank, and sharing = \"temporal\" has an "
            "order for each boundary: several boundaries would own one pair of nodes at once",
            name, shape.chunks),
        "sharing = \"spatial\", or one stage per rank: virtual_stages = 1 with schedule = "
        "\"atlas\" or \"1f1b\"");
  }
  CHECK(shape.mapping == mapping, "the shape is not mapped as schedule \"{}\" is", name);
  if (!shape.microbatches_each.empty() && !shape.shared.empty()) {
    return unusable(
        "microbatches_per_replica: the pipelines of a cell that shares the WAN in time "
        "do all the same",
        "sharing = \"spatial\", or pipelines with equal numbers of microbatches");
  }
  constexpr int64_t kActionsPerMicrobatch = 8;  // F, R, I, W and two messages in and two out
  if (int64_t{shape.stages} * shape.replicas * shape.microbatches >
      kActionsMax / kActionsPerMicrobatch) {
    return unusable(
        fmt::format("{} stages x {} replicas x {} microbatches are too many to schedule",
                    shape.stages, shape.replicas, shape.microbatches),
        "a larger micro_batch");
  }
  return {};
}

// A Plan file can say anything, and so can a job's links: each time must fit into 64 bits of nanoseconds, and
// where the schedule is played in time all of an iteration together.
Status check_times(const plan::Plan& plan, const PipelineShape& shape, bool played) {
  const double actions =
      played ? 8.0 * real(std::ssize(plan.stages)) * real(plan.microbatches()) : 1;
  const auto check = [](const std::string& what, Seconds time, double times) -> Status {
    if (time.value >= 0 && time.value * times < 9e9) return {};
    return unusable(fmt::format("{} takes {}: times must not be negative, and all of an iteration "
                                "together must stay below 290 years",
                                what, format(time)),
                    "another unit, or fewer microbatches");
  };
  for (const plan::PairCost& pair : plan.pairs) {
    TRY(check(fmt::format("a pair of stages {} and {}", pair.forward, pair.backward),
              pair.duration(), actions));
  }
  const auto check_cost = [&](size_t s, const plan::StageCost& cost) -> Status {
    TRY(check(fmt::format("forward of stage {}", s), cost.forward, actions));
    TRY(check(fmt::format("backward of stage {}", s), cost.backward, actions));
    TRY(check(fmt::format("recompute of stage {}", s), cost.recompute, actions));
    TRY(check(fmt::format("update of stage {}", s), cost.update, 1));
    return check(fmt::format("reduce of stage {}", s), cost.reduce + cost.reduce_hidden, 1);
  };
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    TRY(check_cost(s, plan.stages[s].cost));
    for (const plan::StageCostIn& other : plan.stages[s].elsewhere) {
      TRY(check_cost(s, other.cost));
    }
    const auto stage = static_cast<int32_t>(s);
    for (int32_t replica = 0; replica < shape.replicas && shape.crosses(stage); ++replica) {
      const plan::Channel channel = plan::expected_channel(plan, plan.rank_of(stage, replica),
                                                           plan.rank_of(stage + 1, replica));
      TRY(check("a transfer over " + channel.link,
                channel.latency + channel.serialisation(plan.boundary), actions));
    }
  }
  return {};
}

// Of each pipeline the first of those with which it shares the boundary behind this stage, or -1.
std::vector<int32_t> groups_at(const plan::Plan& plan, int32_t stage) {
  std::vector<int32_t> out(static_cast<size_t>(plan.replicas()), -1);
  for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
    if (out[static_cast<size_t>(replica)] >= 0) continue;  // with one before it
    for (const int32_t other :
         plan::sharers(plan, plan.rank_of(stage, replica), plan.rank_of(stage + 1, replica))) {
      out[static_cast<size_t>(other)] = replica;
    }
  }
  return out;
}

// Says of each boundary whether it is shared, and leaves out the groups that say no more.
void share_by(std::vector<std::vector<int32_t>> groups, PipelineShape& shape) {
  shape.shared.clear();
  shape.groups.clear();
  bool any = false, parts = false;
  for (std::vector<int32_t>& row : groups) {
    const bool shares = std::any_of(row.begin(), row.end(), [](int32_t g) { return g >= 0; });
    bool whole = true;
    for (int32_t replica = 0; replica < shape.replicas; ++replica) {
      whole = whole && row[static_cast<size_t>(replica)] == replica - replica % shape.cell;
    }
    if (whole || !shares) row.clear();
    shape.shared.push_back(shares);
    any = any || shares;
    parts = parts || !row.empty();
  }
  if (!any) shape.shared.clear();
  if (parts) shape.groups = std::move(groups);
}

// What a pipeline goes by that is ordered as if it were alone.
struct OwnOrder {
  int32_t microbatches = 0;
  Times times;
  Memory memory;
};

// Pipelines with different numbers of microbatches, or on different devices, do not affect one another:
// each is ordered separately, once for each of `kinds`; kind_of[r] is that of pipeline r.
Result<Schedule> build_each(layout::ScheduleKind kind, const PipelineShape& shape,
                            layout::Discipline discipline, const std::vector<OwnOrder>& kinds,
                            const std::vector<size_t>& kind_of) {
  std::vector<Schedule> alone;
  for (const OwnOrder& own : kinds) {
    PipelineShape one = shape;
    one.microbatches = own.microbatches;
    one.microbatches_each.clear();
    one.replicas = one.cell = 1;
    alone.push_back(TRY(build(kind, one, own.times, discipline, own.memory)));
  }
  Schedule out{std::string(name_of(kind)),
               std::vector<RankActions>(static_cast<size_t>(shape.ranks()))};
  for (int32_t replica = 0; replica < shape.replicas; ++replica) {
    const Schedule& like = alone[kind_of[static_cast<size_t>(replica)]];
    for (int32_t position = 0; position < shape.positions(); ++position) {
      RankActions order = like.ranks[static_cast<size_t>(position)];
      std::erase_if(order, [](const Action& action) { return action.microbatch < 0; });
      const auto rank = static_cast<size_t>(position * shape.replicas + replica);
      out.ranks[rank] = std::move(order);
      if (like.pairs.empty()) continue;
      out.pairs.resize(out.ranks.size());
      out.pairs[rank] = like.pairs[static_cast<size_t>(position)];
    }
  }
  add_update(out.ranks, shape);
  if (const Status sound = validate(out, shape); !sound) {
    CHECK(false, "policy {} made a broken schedule: {}", out.name, sound.error().text());
  }
  return out;
}

// With the same times and memory for all.
Result<Schedule> build_each(layout::ScheduleKind kind, const PipelineShape& shape,
                            const Times& times, layout::Discipline discipline,
                            const Memory& memory) {
  std::vector<OwnOrder> kinds;
  std::vector<size_t> kind_of;
  std::map<int32_t, size_t> known;  // by microbatches
  for (int32_t replica = 0; replica < shape.replicas; ++replica) {
    const int32_t microbatches = shape.microbatches_of(replica);
    const auto [at, fresh] = known.emplace(microbatches, kinds.size());
    if (fresh) kinds.push_back({microbatches, times, memory});
    kind_of.push_back(at->second);
  }
  return build_each(kind, shape, discipline, kinds, kind_of);
}

// On different devices: pipelines that lie in the same datacenters and do as much are of one kind.
Result<Schedule> build_each(const plan::Plan& plan, const PipelineShape& shape) {
  CHECK(shape.replicas == plan.replicas(), "{} of {} pipelines on different devices",
        shape.replicas, plan.replicas());
  const std::vector<size_t> kind_of = plan::kinds_of_pipelines(plan);
  std::vector<OwnOrder> kinds;
  for (int32_t replica = 0; replica < shape.replicas; ++replica) {
    if (kind_of[static_cast<size_t>(replica)] < kinds.size()) continue;
    kinds.push_back(
        {shape.microbatches_of(replica), times_of(plan, replica), memory_of(plan, replica)});
  }
  return build_each(plan.parallelism.schedule, shape, plan.parallelism.discipline, kinds, kind_of);
}

// One cell as if it were alone.
PipelineShape cell_alone(const PipelineShape& shape, int32_t cell) {
  PipelineShape one = shape;
  one.replicas = shape.cell;
  std::vector<std::vector<int32_t>> groups;
  const int32_t first = cell * shape.cell;
  for (int32_t boundary = 0; boundary + 1 < shape.stages; ++boundary) {
    groups.emplace_back();
    for (int32_t replica = first; replica < first + shape.cell; ++replica) {
      const int32_t group = shape.first_sharer(boundary, replica);
      groups.back().push_back(group < 0 ? -1 : group - first);
    }
  }
  share_by(std::move(groups), one);
  return one;
}

Times cell_alone(const Times& times, const PipelineShape& shape, int32_t cell) {
  Times one = times;
  for (auto* each : {&one.transfer_each, &one.latency_each}) {
    for (std::vector<SimDuration>& row : *each) {
      row = {row.begin() + cell * shape.cell, row.begin() + (cell + 1) * shape.cell};
    }
  }
  return one;
}

// Cells that share the WAN in different ways do not affect one another: each kind of them is
// ordered separately, and cells of one kind do the same.
Result<Schedule> build_cells(layout::ScheduleKind kind, const PipelineShape& shape,
                             const Times& times, layout::Discipline discipline,
                             const Memory& memory) {
  using Key =
      std::tuple<std::vector<bool>, std::vector<std::vector<int32_t>>,
                 std::vector<std::vector<SimDuration>>, std::vector<std::vector<SimDuration>>>;
  std::map<Key, Schedule> known;
  Schedule out{std::string(name_of(kind)),
               std::vector<RankActions>(static_cast<size_t>(shape.ranks()))};
  out.release.resize(static_cast<size_t>(shape.replicas));
  for (int32_t cell = 0; cell < shape.replicas / shape.cell; ++cell) {
    const PipelineShape one = cell_alone(shape, cell);
    const Times of_one = cell_alone(times, shape, cell);
    const Key key{one.shared, one.groups, of_one.transfer_each, of_one.latency_each};
    if (!known.contains(key)) {
      known.emplace(key, TRY(build(kind, one, of_one, discipline, memory)));
    }
    const Schedule& like = known.at(key);
    for (int32_t rank = 0; rank < one.ranks(); ++rank) {
      const int32_t replica = cell * shape.cell + rank % shape.cell;
      const int32_t position = rank / shape.cell;
      RankActions& order = out.ranks[static_cast<size_t>(position * shape.replicas + replica)];
      order = like.ranks[static_cast<size_t>(rank)];
      std::erase_if(order, [](const Action& action) { return action.microbatch < 0; });
    }
    for (const LinkOrder& link : like.links) out.links.push_back(of_later_cell(link, cell, shape));
    for (size_t c = 0; c < like.release.size(); ++c) {
      out.release[static_cast<size_t>(cell * shape.cell) + c] = like.release[c];
    }
  }
  add_update(out.ranks, shape);
  std::sort(out.links.begin(), out.links.end(),
            [](const LinkOrder& a, const LinkOrder& b) { return a.key() < b.key(); });
  const bool released = std::any_of(out.release.begin(), out.release.end(),
                                    [](SimDuration each) { return each.ns > 0; });
  if (!released) out.release.clear();
  if (const Status sound = validate(out, shape); !sound) {
    CHECK(false, "policy {} made a broken schedule: {}", out.name, sound.error().text());
  }
  return out;
}

Result<Schedule> build_for(const plan::Plan& plan, const PipelineShape& shape) {
  if (plan.given) {
    TRY(during(check_times(plan, shape, false), "reading the Plan"));
    return from_given(*plan.given, shape);
  }
  const Policy& policy = policy_of(plan.parallelism.schedule);
  const bool needs_times = policy.rules || !shape.shared.empty();
  TRY(during(check_times(plan, shape, needs_times), "reading the Plan"));
  if (!needs_times) return build(plan.parallelism.schedule, shape);
  if (plan.on_unlike_devices() && shape.shared.empty()) return build_each(plan, shape);
  return build(plan.parallelism.schedule, shape, times_of(plan), plan.parallelism.discipline,
               memory_of(plan));
}

// Of every pair the Plan says how long it takes.
Status check_pair_costs(const plan::Plan& plan, const Schedule& schedule) {
  std::set<std::pair<int32_t, int32_t>> known;
  for (const plan::PairCost& pair : plan.pairs) known.emplace(pair.forward, pair.backward);
  for (const std::vector<Pair>& of_rank : schedule.pairs) {
    for (const Pair& pair : of_rank) {
      if (known.contains({pair.forward.stage, pair.backward.stage})) continue;
      return unusable(
          fmt::format("schedule \"{}\" co-executes {} and {}, and the Plan has no pair "
                      "of stages {} and {}",
                      schedule.name, action::to_text(pair.forward), action::to_text(pair.backward),
                      pair.forward.stage, pair.backward.stage),
          "pairs with an entry for them, or none at all: one after the other");
    }
  }
  return {};
}

}  // namespace

std::vector<int32_t> PipelineShape::stages_at(int32_t position) const {
  std::vector<int32_t> out;
  for (int32_t chunk = 0; chunk < chunks; ++chunk) {
    for (int32_t stage = chunk * positions(); stage < (chunk + 1) * positions(); ++stage) {
      if (position_of(stage) == position) out.push_back(stage);
    }
  }
  return out;
}

PipelineShape shape_of(const plan::Plan& plan) {
  PipelineShape shape{.stages = static_cast<int32_t>(plan.stages.size()),
                      .microbatches = static_cast<int32_t>(plan.microbatches()),
                      .replicas = plan.replicas(),
                      .chunks = static_cast<int32_t>(plan.parallelism.virtual_stages),
                      .mapping = plan.parallelism.mapping()};
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    shape.recompute.push_back(plan.may_recompute(s) && plan.stages[s].cost.recompute.value > 0);
  }
  shape.pairs = !plan.pairs.empty();
  for (const int64_t each : plan.parallelism.microbatches_per_replica) {
    shape.microbatches_each.push_back(static_cast<int32_t>(each));
  }
  if (plan.parallelism.sharing_in_use() == layout::Sharing::kSpatial) return shape;
  shape.cell = static_cast<int32_t>(plan.parallelism.pipelines_per_cell());
  std::vector<std::vector<int32_t>> groups;
  for (int32_t s = 0; s + 1 < shape.stages; ++s) groups.push_back(groups_at(plan, s));
  share_by(std::move(groups), shape);
  return shape;
}

std::vector<int32_t> PipelineShape::sharers(int32_t boundary, int32_t replica) const {
  std::vector<int32_t> out;
  const int32_t first = first_sharer(boundary, replica);
  if (first < 0) return out;
  const int32_t end = first - first % cell + cell;
  for (int32_t other = first; other < end; ++other) {
    if (first_sharer(boundary, other) == first) out.push_back(other);
  }
  return out;
}

std::vector<LinkOrder> links_of(const PipelineShape& shape) {
  std::vector<LinkOrder> out;
  for (int32_t boundary = 0; boundary + 1 < shape.stages; ++boundary) {
    if (!shape.shares(boundary)) continue;
    for (const bool gradients : {false, true}) {
      for (int32_t replica = 0; replica < shape.replicas; ++replica) {
        if (shape.first_sharer(boundary, replica) != replica) continue;
        const auto members = shape.sharers(boundary, replica).size();
        const bool whole = members == static_cast<size_t>(shape.cell);
        out.push_back({boundary, gradients, replica / shape.cell, {}, whole ? -1 : replica});
      }
    }
  }
  return out;
}

std::vector<int32_t> sharers_of(const LinkOrder& link, const PipelineShape& shape) {
  return shape.sharers(link.boundary, link.first < 0 ? link.cell * shape.cell : link.first);
}

LinkOrder of_later_cell(LinkOrder link, int32_t cells, const PipelineShape& shape) {
  link.cell += cells;
  if (link.first >= 0) link.first += cells * shape.cell;
  for (Transfer& transfer : link.transfers) transfer.replica += cells * shape.cell;
  return link;
}

namespace {

// Boundaries that some pipeline crosses from one datacenter to another, and that are not shared.
std::vector<int32_t> crossed_apart(const plan::Plan& plan, const PipelineShape& shape) {
  std::vector<int32_t> out;
  for (int32_t s = 0; s + 1 < shape.stages; ++s) {
    bool crosses = false;
    for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
      crosses = crosses || plan.datacenter_index(plan.rank_of(s, replica)) !=
                               plan.datacenter_index(plan.rank_of(s + 1, replica));
    }
    if (crosses && !shape.shares(s)) out.push_back(s);
  }
  return out;
}

// What asks for it: the key itself, or a schedule that comes with it.
std::string key_of_sharing(const layout::Parallelism& p) {
  if (p.sharing) return fmt::format("parallelism.sharing = \"{}\"", to_name(*p.sharing));
  return fmt::format("sharing in time, of parallelism.schedule = \"{}\",", to_name(p.schedule));
}

std::string note_on_cell(const plan::Plan& plan) {
  const layout::Parallelism& p = plan.parallelism;
  const std::string because =
      p.sharing ? std::string("parallelism.sharing = \"spatial\"")
                : fmt::format(
                      "with schedule = \"{}\" every pipeline sends separately; sharing = "
                      "\"temporal\" lets cells share the WAN",
                      to_name(p.schedule));
  return fmt::format("parallelism.cell = {} has no effect: {}", *p.cell, because);
}

}  // namespace

std::vector<std::string> notes_on_sharing(const plan::Plan& plan) {
  const layout::Parallelism& p = plan.parallelism;
  if (p.sharing_in_use() == layout::Sharing::kSpatial) {
    // Prompts run in pipelines over the stages of a cell, whichever pipelines share the WAN.
    if (p.cell.value_or(1) == 1 || plan.prefill) return {};
    return {note_on_cell(plan)};
  }
  const std::string key = key_of_sharing(p);
  if (p.pipelines_per_cell() == 1) {
    if (!p.sharing)
      return {};  // the order of this schedule is worth something for one pipeline, too
    return {fmt::format("{} has no effect: a cell has one pipeline", key)};
  }
  const PipelineShape shape = shape_of(plan);
  const std::vector<int32_t> apart = crossed_apart(plan, shape);
  if (shape.shared.empty() && apart.empty()) {
    return {fmt::format("{} has no effect: no pipeline crosses the WAN", key)};
  }
  if (apart.empty()) return {};
  std::string where;
  for (const int32_t s : apart) {
    where += fmt::format("{}{} and {}", where.empty() ? "" : ", ", s, s + 1);
  }
  return {
      fmt::format("{} has no effect between stages {}: no two pipelines of a cell cross there from "
                  "one datacenter to the same other",
                  key, where)};
}

PipelineShape shape_of(const plan::Decisions& job) {
  const layout::Parallelism& p = job.parallelism;
  return {.stages = static_cast<int32_t>(p.stages()),
          .microbatches = static_cast<int32_t>(job.microbatches()),
          .chunks = static_cast<int32_t>(p.virtual_stages),
          .mapping = p.mapping()};
}

PipelineShape shape_for(layout::ScheduleKind kind, int32_t positions, int32_t microbatches,
                        int32_t chunks) {
  PipelineShape shape{.microbatches = microbatches, .chunks = chunks, .mapping = mapping_of(kind)};
  if (shape.mapping == layout::StageMapping::kLoop) shape.chunks = std::max(chunks, 2);
  if (shape.mapping == layout::StageMapping::kFold) shape.chunks = 2;
  shape.stages = positions * shape.chunks;
  return shape;
}

Result<Schedule> build(const plan::Plan& plan) {
  const PipelineShape shape = shape_of(plan);
  Schedule schedule = TRY(build_for(plan, shape));
  TRY(check_pair_costs(plan, schedule));
  return schedule;
}

Result<Schedule> build(const plan::Plan& plan, std::span<const int32_t> replicas) {
  PipelineShape shape = shape_of(plan);
  CHECK(!replicas.empty() && shape.shared.empty() && !plan.given,
        "{} pipelines whose order depends on the others", replicas.size());
  const auto each = std::exchange(shape.microbatches_each, {});
  shape.replicas = std::max(static_cast<int32_t>(replicas.size()), std::min(shape.replicas, 2));
  shape.cell = 1;
  for (int32_t i = 0; i < shape.replicas && !each.empty(); ++i) {
    const size_t kept = std::min(static_cast<size_t>(i), replicas.size() - 1);
    shape.microbatches_each.push_back(each[static_cast<size_t>(replicas[kept])]);
  }
  Schedule schedule = TRY(build_for(plan, shape));
  TRY(check_pair_costs(plan, schedule));
  return schedule;
}

Result<Schedule> build(layout::ScheduleKind kind, const PipelineShape& shape) {
  constexpr SimDuration kUnit{1'000'000};
  return build(kind, shape, equal_times(shape.stages, {kUnit, kUnit, kUnit, kUnit}));
}

Result<Schedule> build(layout::ScheduleKind kind, const PipelineShape& shape, const Times& times,
                       layout::Discipline discipline, const Memory& memory) {
  TRY(check_shape(kind, shape));
  if (!shape.microbatches_each.empty()) {
    return build_each(kind, shape, times, discipline, memory);
  }
  if (!shape.groups.empty() && shape.replicas > shape.cell) {
    return build_cells(kind, shape, times, discipline, memory);
  }
  const Policy& policy = policy_of(kind);
  Schedule schedule{std::string(name_of(kind)), {}};
  if (policy.rules) {
    Rules rules = policy.rules(shape, times, discipline);
    if (traits_of(kind).has(layout::kKeepsToMemory)) rules.in_flight = memory.in_flight;
    // Without room for one microbatch nothing can run at all: check_memory says so.
    for (int32_t& most : rules.in_flight) most = std::max(most, 1);
    schedule = TRY(play(schedule.name, shape, times, rules)).schedule;
  } else {
    const std::vector<RankActions> compute = policy.order_compute(shape, times);
    std::vector<std::vector<Pair>> pairs;
    if (shape.pairs && policy.pairs) pairs = policy.pairs(shape);
    const bool any = std::any_of(pairs.begin(), pairs.end(),
                                 [](const auto& of_position) { return !of_position.empty(); });
    if (!any) pairs.clear();
    schedule.ranks =
        replicate(add_communication(compute, shape, RecomputeWhen::kWithGradient, pairs), shape);
    schedule.pairs = replicate(pairs, shape);
    add_update(schedule.ranks, shape);
    schedule = order_links(std::move(schedule), shape, times, cell_rules(shape, times, discipline));
  }
  if (const Status sound = validate(schedule, shape); !sound) {
    CHECK(false, "policy {} made a broken schedule: {}", schedule.name, sound.error().text());
  }
  return schedule;
}

int64_t message_tag(const Action& action) {
  CHECK(action::is_communication(action.kind), "{} is no message", action::to_text(action));
  const bool gradient =
      action.kind == ActionKind::kSendGradient || action.kind == ActionKind::kReceiveGradient;
  return 2 * int64_t{action.microbatch} + (gradient ? 1 : 0);
}

}  // namespace tombolo::schedule
