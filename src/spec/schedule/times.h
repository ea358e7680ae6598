// How long the parts of a schedule take, as plain numbers, and what follows: when each one happens.
//
// evaluate() is the longest path through a schedule: computations of a rank one after the other,
// one message at a time per directed pair of ranks, in the order of the sends, or per shared link
// in the link's order. The simulator knows more (flows that meet, collectives); where transfers are
// fixed occupancies both agree.
#pragma once

#include <algorithm>
#include <vector>

#include "base/time.h"
#include "spec/plan/plan.h"
#include "spec/trace/trace.h"

namespace tombolo::schedule {

struct Schedule;
struct PipelineShape;

// Of one stage and one microbatch.
struct StageDurations {
  SimDuration forward;
  SimDuration backward_input;   // I; B takes both
  SimDuration backward_weight;  // W
  SimDuration recompute;

  SimDuration backward() const { return backward_input + backward_weight; }
  SimDuration of(action::ActionKind kind) const;  // 0 for what is no computation on a microbatch
};

// Of a forward of one stage co-executed with a backward of another, from the start of the pair.
struct PairDurations {
  int32_t forward = 0, backward = 0;  // the stages
  SimDuration forward_end, backward_end;

  SimDuration duration() const { return std::max(forward_end, backward_end); }
  bool forward_ends_first() const { return forward_end <= backward_end; }
};

struct Times {
  std::vector<StageDurations> stages;
  // [s]: how long a message owns the link between stages s and s + 1, each way: that of its
  // pipeline, or that of the pipelines that share it where the shape says so. Empty: no time.
  std::vector<SimDuration> transfer;
  std::vector<SimDuration> latency = {};  // [s]: from then until it is there; empty: none
  std::vector<PairDurations> pairs = {};  // by (forward, backward)
  // [s][replica], where the pipelines cross a boundary in different ways (PipelineShape::groups):
  // the two above are then those of the slowest. Empty: all alike.
  std::vector<std::vector<SimDuration>> transfer_each = {};
  std::vector<std::vector<SimDuration>> latency_each = {};

  // A pair that is not in `pairs` runs one after the other, the forward first. Cost: log of their
  // number.
  PairDurations pair(int32_t forward, int32_t backward) const;
  SimDuration transfer_over(int32_t boundary) const {
    return transfer.empty() ? SimDuration{0} : transfer[static_cast<size_t>(boundary)];
  }
  SimDuration latency_over(int32_t boundary) const {
    return latency.empty() ? SimDuration{0} : latency[static_cast<size_t>(boundary)];
  }
  // Of one pipeline.
  SimDuration transfer_over(int32_t boundary, int32_t replica) const {
    if (transfer_each.empty()) return transfer_over(boundary);
    return transfer_each[static_cast<size_t>(boundary)][static_cast<size_t>(replica)];
  }
  SimDuration latency_over(int32_t boundary, int32_t replica) const {
    if (latency_each.empty()) return latency_over(boundary);
    return latency_each[static_cast<size_t>(boundary)][static_cast<size_t>(replica)];
  }
};

// Every stage alike, messages free.
Times equal_times(int32_t stages, const StageDurations& each);

// In nanoseconds. The weights' share of a backward is what the cost says (a profile measures it);
// else half of its computation, rounded down: as many products of the same size as the inputs'
// (attention scores, which have no weights, are left out). Collectives belong to the inputs' half.
StageDurations durations_of(const plan::StageCost& cost);

// As the Plan expects them; a transfer is the serialisation of one message alone. Where pipelines
// differ, each stage and each boundary counts as the slowest of them has it; where they share the WAN
// in different ways, each boundary as each of them has it.
Times times_of(const plan::Plan& plan);
// Of one pipeline.
Times times_of(const plan::Plan& plan, int32_t replica);

// One iteration as a trace without labels (draw_ascii draws it): computations, and transfers that
// take time. Gradient all-reduces and updates take none. CHECKs that the schedule is sound.
trace::Trace evaluate(const Schedule& schedule, const PipelineShape& shape, const Times& times);

// The same, of a schedule that is known to be sound: only how long it takes, from the first start
// to the last end of computations. Cost: O(actions), some 10 ns each.
SimDuration makespan_of(const Schedule& schedule, const PipelineShape& shape, const Times& times);

// What a timed schedule wastes. The ratio is as published: 1 - work / (ranks x makespan).
struct Bubble {
  SimDuration makespan;  // first start to last end over all ranks
  SimDuration idle;      // of the rank that idles longest within the makespan
  SimDuration inside;    // of the rank that idles longest between its own first start and last end
  double ratio = 0;      // of all ranks' time
};
Bubble bubble_of(const trace::Trace& trace);

}  // namespace tombolo::schedule
