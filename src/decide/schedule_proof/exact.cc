#include "decide/schedule_proof/exact.h"

#include <numeric>

#include "base/check.h"
#include "decide/schedule_proof/exact_model.h"

namespace tombolo::schedule_proof {
namespace {

// Whether every rank has memory for a microbatch on each of its stages: one by one, that is
// enough.
Status check_memory(const schedule::PipelineShape& shape, const schedule::Memory& memory) {
  if (memory.in_flight.empty()) return {};
  CHECK(memory.in_flight.size() == static_cast<size_t>(shape.positions()),
        "memory of {} positions for {}", memory.in_flight.size(), shape.positions());
  for (int32_t position = 0; position < shape.positions(); ++position) {
    const int32_t places = memory.in_flight[static_cast<size_t>(position)];
    if (places >= shape.chunks) continue;
    return infeasible(fmt::format("rank {} has memory for {} microbatches in flight, and one on "
                                  "each of its stages is {}",
                                  position * shape.replicas, places, shape.chunks),
                      "a smaller micro_batch, or more stages");
  }
  return {};
}

Status check_size(const schedule::PipelineShape& shape) {
  const int64_t backwards = int64_t{shape.stages} * shape.cell * shape.microbatches;
  if (backwards <= kExactBackwardsMax) return {};
  return unusable(
      fmt::format("{} stages x {} pipelines that share links x {} microbatches are {} backwards, "
                  "too many for the shortest schedule to be proven",
                  shape.stages, shape.cell, shape.microbatches, backwards),
      fmt::format("at most {}, or a schedule that is near-optimal", kExactBackwardsMax));
}

}  // namespace

Result<Exact> solve_exact(const schedule::PipelineShape& shape, const schedule::Times& times,
                          const schedule::Memory& memory, const ExactOptions& options) {
  if (!shape.groups.empty()) {
    return unusable(
        "a proof counts the pipelines of a cell as alike, and these cross the WAN "
        "differently",
        "a schedule by its name");
  }
  TRY(check_memory(shape, memory));
  TRY(check_size(shape));
  const detail::ExactModel model(shape, times, memory, options);
  const int64_t unit = model.unit().ns;
  const SimDuration known =
      lower_bounds(shape, times, memory, options.split_backward).front().value;
  detail::Timetable table =
      detail::solve(model.shop(), (known.ns + unit - 1) / unit, options.nodes_max);
  if (table.starts.empty()) {
    CHECK(table.nodes >= options.nodes_max, "one microbatch after the other does not fit");
    table.starts.resize(model.shop().durations.size());
    std::iota(table.starts.begin(), table.starts.end(), int64_t{0});
  }
  Exact out;
  out.schedule = model.schedule(table.starts);
  out.makespan = schedule::makespan_of(out.schedule, shape, times);
  out.bound = {table.bound * unit};
  out.proven = out.makespan == out.bound;
  out.nodes = table.nodes;
  CHECK(out.makespan >= out.bound, "a schedule of {} ns, and none is below {} ns", out.makespan.ns,
        out.bound.ns);
  return out;
}

}  // namespace tombolo::schedule_proof
