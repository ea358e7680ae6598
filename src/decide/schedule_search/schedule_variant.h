// One job under another schedule: the same model on the same devices, laid out as that schedule
// asks.
//
// Families of schedules differ in where stages lie: a line has one per position, loops and folds
// have several. So that they can be compared, every position keeps its work: where stage times were
// given or measured, a position's stages share the position's time, equally if imagined and as the
// roofline splits them if the model is known. (A slow device is slow with any stage.) The very last
// stage never recomputes. A message is a whole microbatch at every boundary, so loops and folds
// send more of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "spec/plan/job.h"
#include "spec/plan/layer_pair.h"
#include "spec/plan/plan.h"
#include "spec/schedule/schedule.h"
#include "spec/trace/trace.h"

namespace tombolo::schedule_search {

using layout::ScheduleVariant;

// What every position does with one microbatch, and its update and gradient all-reduce.
using PositionWork = std::vector<plan::StageCost>;

// Of a Plan; the recomputation that its last stage does not do counts as if it did, as long per
// forward as that of the position before.
PositionWork work_of(const plan::Plan& plan);

// The Plan with each position's passes and update replaced by `work`, shared by its stages as they
// are now.
plan::Plan with_work(plan::Plan plan, const PositionWork& work);

// Unusable: the layout needs a WAN link that the cluster does not have, more layers than the model
// has, or another policy's number of chunks. What `plan` was given to perform is left out.
Result<plan::Plan> vary(const plan::Plan& plan, const ScheduleVariant& variant);

// The Plan under this schedule, with what the name alone stands for in it (Parallelism::variant_as).
Result<plan::Plan> with_schedule(const plan::Plan& plan, layout::ScheduleKind kind);

// How long the pairs of a folded layout of the same model take: those of `base`, if it is folded so
// and says so, or as a layer has them. Empty: not known.
std::vector<plan::PairCost> pairs_for(const plan::Plan& base, const plan::Plan& folded,
                                      const std::optional<plan::LayerPair>& layer);

// The Plan of the first DP-cell alone, or of the first pipeline where none share in time: what
// schedules of alike pipelines can be searched on. It has no gradient all-reduce among cells.
plan::Plan one_cell(const plan::Plan& plan);

// What every cell does when each does as one: computations and links, to be handed to to_given.
schedule::Schedule for_every_cell(const schedule::Schedule& of_one,
                                  const schedule::PipelineShape& one,
                                  const schedule::PipelineShape& all);

// How long the stages of a job really take, from a Trace of it: what a schedule is found for again
// when a device turns out slower than planned.
//
// `planned` with its passes replaced by what the Trace saw: per rank, the median over microbatches
// and iterations of its forwards, of its backwards (whole, or in halves) and of its recomputations;
// where a rank holds several stages, their sum. Of the replicas of a position the slowest counts,
// for all of them wait for it. Updates and gradient all-reduces stay as planned.
//
// Unusable: another number of positions, or one without a forward or a backward. A recomputation
// that the last position was not seen doing takes as long per forward as the one before's.
Result<PositionWork> measured_work(const trace::Trace& trace, const PositionWork& planned);

// The position whose passes grew most over what was planned, and how many times.
struct Straggler {
  size_t position = 0;
  double factor = 1;
};
Straggler slowest(const PositionWork& measured, const PositionWork& planned);

}  // namespace tombolo::schedule_search
