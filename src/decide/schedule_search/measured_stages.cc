#include <algorithm>
#include <map>
#include <vector>

#include "base/quantiles.h"
#include "decide/schedule_search/schedule_variant.h"

namespace tombolo::schedule_search {
namespace {

using action::ActionKind;

bool is_pass(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kBackward ||
         kind == ActionKind::kBackwardInput || kind == ActionKind::kBackwardWeight ||
         kind == ActionKind::kRecompute;
}

struct Passes {
  Seconds forward, backward, recompute;
  Seconds forward_again;  // of the stages that recompute
};

// By rank.
std::map<int32_t, Passes> passes_of(const trace::Trace& trace) {
  std::map<std::tuple<int64_t, int32_t, action::Action>, SimDuration> whole;  // of all its parts
  for (const trace::Interval& interval : trace.intervals) {
    if (interval.lane != trace::Lane::kCompute || interval.iteration <= 0) continue;
    if (!is_pass(interval.action.kind)) continue;
    whole[{interval.iteration, interval.rank, interval.action}] += interval.end - interval.start;
  }
  std::map<std::tuple<int32_t, int32_t, ActionKind>, std::vector<SimDuration>> seen;
  for (const auto& [pass, duration] : whole) {
    const auto& [iteration, rank, action] = pass;
    seen[{rank, action.stage, action.kind}].push_back(duration);
  }
  std::map<int32_t, Passes> passes;
  for (auto& [what, durations] : seen) {
    const auto& [rank, stage, kind] = what;
    Passes& of_rank = passes[rank];
    Seconds& part = kind == ActionKind::kForward     ? of_rank.forward
                    : kind == ActionKind::kRecompute ? of_rank.recompute
                                                     : of_rank.backward;
    part += seconds(median_high(durations));
    const auto again = seen.find({rank, stage, ActionKind::kRecompute});
    if (kind == ActionKind::kForward && again != seen.end()) {
      of_rank.forward_again += seconds(median_high(durations));
    }
  }
  for (auto& [rank, of_rank] : passes) {  // as if the very last stage recomputed, too
    if (of_rank.forward_again.value > 0) {
      of_rank.recompute = of_rank.recompute * (of_rank.forward / of_rank.forward_again);
    }
  }
  return passes;
}

}  // namespace

Result<PositionWork> measured_work(const trace::Trace& trace, const PositionWork& planned) {
  int32_t positions = 0;
  for (const trace::RankLabel& label : trace.header.ranks) {
    positions = std::max(positions, label.stage + 1);
  }
  if (static_cast<size_t>(positions) != planned.size()) {
    return unusable(fmt::format("the trace of \"{}\" has ranks at {} positions of a pipeline, and "
                                "the job has {}",
                                trace.header.name, positions, planned.size()),
                    "a trace of this job");
  }
  const std::map<int32_t, Passes> passes = passes_of(trace);
  PositionWork work = planned;
  std::vector<Passes> slowest(work.size());
  for (const trace::RankLabel& label : trace.header.ranks) {
    const auto found = passes.find(label.rank);
    if (found == passes.end() || label.stage < 0) continue;
    Passes& at = slowest[static_cast<size_t>(label.stage)];
    at.forward = std::max(at.forward, found->second.forward);
    at.backward = std::max(at.backward, found->second.backward);
    at.recompute = std::max(at.recompute, found->second.recompute);
  }
  for (size_t position = 0; position < work.size(); ++position) {
    const Passes& seen = slowest[position];
    if (seen.forward.value <= 0 || seen.backward.value <= 0) {
      return unusable(fmt::format("the trace of \"{}\" has no {} at position {}", trace.header.name,
                                  seen.forward.value <= 0 ? "forward" : "backward", position),
                      "the trace of a whole iteration");
    }
    work[position].forward = seen.forward;
    if (planned[position].backward_weight && planned[position].backward > 0_s) {
      work[position].backward_weight =
          seen.backward * (*planned[position].backward_weight / planned[position].backward);
    }
    work[position].backward = seen.backward;
    work[position].recompute = seen.recompute;
  }
  const size_t last = work.size() - 1;
  if (last > 0 && work[last].recompute.value == 0) {
    const plan::StageCost& before = work[last - 1];
    work[last].recompute = work[last].forward * (before.recompute / before.forward);
  }
  return work;
}

Straggler slowest(const PositionWork& measured, const PositionWork& planned) {
  Straggler out;
  for (size_t position = 0; position < measured.size(); ++position) {
    const Seconds now = measured[position].forward + measured[position].backward;
    const Seconds then = planned[position].forward + planned[position].backward;
    const double factor = then.value > 0 ? now / then : 1;
    if (factor > out.factor) out = {position, factor};
  }
  return out;
}

}  // namespace tombolo::schedule_search
