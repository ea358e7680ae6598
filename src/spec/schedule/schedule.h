// Pipeline schedules as values: for every rank, the actions it performs, in order.
//
// A schedule is built by small passes: a named policy orders the computations (gpipe.cc,
// one_forward_one_backward.cc, ...), add_communication inserts sends and receives, validate checks
// what must hold of any schedule. to_graph turns the value into the Graph that the simulator
// interprets; the runtime performs the value itself.
//
// How actions are meant: computations of a rank run one after the other, in this order. A send is
// handed over and proceeds asynchronously; a receive waits until its message is there. The messages
// of a directed pair of ranks travel in the order of their sends. Where pipelines of a DP-cell share
// the WAN in time, one transfer of theirs at a time crosses a boundary in a direction, in the order
// that the schedule states; the link waits for the next one rather than let another pass. A pair is
// a forward and a backward that are neighbours in the order of a rank and run concurrently. Its
// receives come before both and its sends after both; it begins when both inputs are there, and what
// is sent leaves as its side ends, the forward's first where both end together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "spec/action/action.h"
#include "spec/graph/graph.h"
#include "spec/plan/plan.h"
#include "spec/plan/settings.h"
#include "spec/schedule/times.h"

namespace tombolo::schedule {

using RankActions = std::vector<action::Action>;

using plan::LinkOrder;
using plan::Pair;
using plan::Transfer;

struct Schedule {
  std::string name;
  std::vector<RankActions> ranks;     // ranks[r]: what rank r does in one iteration
  std::vector<LinkOrder> links = {};  // as links_of(shape) has them, by LinkOrder::key
  // Per replica: how long after the iteration's start its first forward may begin at the earliest.
  // Empty: at once.
  std::vector<SimDuration> release = {};
  // pairs[r]: which neighbours in the order of rank r are co-executed, in that order. Empty: none.
  std::vector<std::vector<Pair>> pairs = {};

  bool operator==(const Schedule&) const = default;
};

// The shape that schedules depend on. Stages are chunks of the model; where a rank holds several
// (chunks > 1), the mapping says which.
struct PipelineShape {
  int32_t stages = 1;           // of all ranks of one pipeline: positions x chunks
  int32_t microbatches = 1;     // of one pipeline: of the one that has most
  std::vector<bool> recompute;  // per stage: R before each backward; empty: nowhere
  int32_t replicas = 1;         // pipelines side by side; rank = position x replicas + replica
  int32_t chunks = 1;           // stages per rank
  layout::StageMapping mapping = layout::StageMapping::kLine;
  int32_t cell = 1;  // pipelines per DP-cell; divides replicas
  // Per boundary: whether pipelines share it in time; empty: none.
  std::vector<bool> shared;
  // Per boundary and pipeline: the first of the pipelines of its cell with which it shares the
  // boundary; -1: it crosses alone. An empty row: the whole cell shares it, or no pipeline does.
  // Empty: so it is everywhere, and cells are alike.
  std::vector<std::vector<int32_t>> groups = {};

  // Per pipeline, where they have different numbers of microbatches; empty: all alike. Then no
  // boundary is shared.
  std::vector<int32_t> microbatches_each = {};
  // Whether passes that a policy pairs (w, dualpipev) are co-executed, or else run one after the
  // other.
  bool pairs = false;

  int32_t microbatches_of(int32_t replica) const {
    return microbatches_each.empty() ? microbatches
                                     : microbatches_each[static_cast<size_t>(replica)];
  }
  // Whether any pipelines share it.
  bool shares(int32_t boundary) const {
    return !shared.empty() && shared[static_cast<size_t>(boundary)];
  }
  bool shares(int32_t boundary, int32_t replica) const {
    return first_sharer(boundary, replica) >= 0;
  }
  // The first of those with which this pipeline shares it; -1: it crosses alone.
  int32_t first_sharer(int32_t boundary, int32_t replica) const {
    if (!shares(boundary)) return -1;
    if (groups.empty() || groups[static_cast<size_t>(boundary)].empty())
      return replica - replica % cell;
    return groups[static_cast<size_t>(boundary)][static_cast<size_t>(replica)];
  }
  // All with which it shares, itself among them, ascending. Cost: O(cell).
  std::vector<int32_t> sharers(int32_t boundary, int32_t replica) const;
  int32_t positions() const { return stages / chunks; }
  int32_t ranks() const { return positions() * replicas; }
  int32_t position_of(int32_t stage) const {
    return layout::position_of(mapping, stage, positions());
  }
  int32_t rank_of(int32_t stage, int32_t replica) const {
    return position_of(stage) * replicas + replica;
  }
  bool recomputes(int32_t stage) const { return !recompute.empty() && recompute[stage]; }
  // Whether the stages on both sides of this boundary lie on different ranks, so that messages
  // pass.
  bool crosses(int32_t boundary) const {
    return boundary >= 0 && boundary + 1 < stages &&
           position_of(boundary) != position_of(boundary + 1);
  }
  // Those at a position, ascending.
  std::vector<int32_t> stages_at(int32_t position) const;
};
PipelineShape shape_of(const plan::Plan& plan);

// Every link that pipelines of a cell share, without transfers: in the order of a schedule's.
std::vector<LinkOrder> links_of(const PipelineShape& shape);
// The pipelines that share it.
std::vector<int32_t> sharers_of(const LinkOrder& link, const PipelineShape& shape);
// The same link of the cell that is `cells` cells behind its own.
LinkOrder of_later_cell(LinkOrder link, int32_t cells, const PipelineShape& shape);

// Sentences: which key of a Plan about sharing the WAN in time has no effect, and why.
std::vector<std::string> notes_on_sharing(const plan::Plan& plan);

// Of a job that is not laid out: one pipeline, nothing recomputed, nothing shared.
PipelineShape shape_of(const plan::Decisions& job);

// One pipeline mapped as the schedule asks for; chunks for those that take any.
PipelineShape shape_for(layout::ScheduleKind kind, int32_t positions, int32_t microbatches,
                        int32_t chunks = 1);

// What devices have memory for, counted as peak_in_flight counts: from F to B (or W).
struct Memory {
  std::vector<int32_t> in_flight;  // per position, in microbatches of a stage; empty: any number
};

// How many microbatches the devices of a Plan have room for in addition to weights, gradients and
// optimizer, or its [stage_times].in_flight. Where a rank holds several stages, the largest counts
// for all. A position without room for one has 0. On different devices what all of them have room
// for.
Memory memory_of(const plan::Plan& plan);
Memory memory_of(const plan::Plan& plan, int32_t replica);  // of one pipeline

// The whole schedule of one iteration: computations, communication and the optimizer update.
// Replicas of a stage sum their gradients before the update. They follow the same order, except
// where a policy orders the pipelines of a DP-cell together (atlas), where cells share the WAN in
// different ways (each kind of cell is ordered separately), or the Plan gives the schedule.
// Unusable for a shape that the policy does not take; for pairs of which the Plan does not say how long they take; and above kActionsMax actions, before any memory is spent on them.
//
// Policies that follow rules in time (Varuna, Atlas) need to know how long things take, and so do
// link orders of shared boundaries; without times a backward takes two forwards, a recomputation
// one, and messages are free. Atlas keeps to the memory, if that holds one microbatch; of the
// others check_memory says whether they do.
inline constexpr int64_t kActionsMax = 50'000'000;
Result<Schedule> build(const plan::Plan& plan);
// Of these pipelines alone, ascending, where each is ordered for itself: no cell shares a boundary, and the
// Plan gives no schedule. ranks[position x n + i] is pipeline replicas[i]'s, of at least two pipelines
// where the Plan has as many, so that they sum their gradients (n: spare ones repeat the last).
Result<Schedule> build(const plan::Plan& plan, std::span<const int32_t> replicas);
Result<Schedule> build(layout::ScheduleKind kind, const PipelineShape& shape);
Result<Schedule> build(layout::ScheduleKind kind, const PipelineShape& shape, const Times& times,
                       layout::Discipline discipline = layout::Discipline::kReleased,
                       const Memory& memory = {});

// What a Plan carries to be performed as found: the computations of every rank, the order of every
// shared link, and the releases. from_given adds communication and updates again, and refuses what
// does not validate. Times are needed to price nothing: orders are taken as they are.
plan::GivenSchedule to_given(const Schedule& schedule);
Result<Schedule> from_given(const plan::GivenSchedule& given, const PipelineShape& shape);

// What must hold of any schedule: every stage runs F, then R where it recomputes, then B (or I, and
// later W) of every microbatch, once; backward of a microbatch follows its F; one update per stage
// at the end, and where there are replicas the gradient all-reduces right before; every computation
// that needs a message is preceded by its receive, every send by its computation; sends and
// receives of a pair agree in order, activations and gradients each; every transfer over a shared
// boundary stands once in its link's order; pairs are neighbours; and all ranks together can
// finish, links in their order (no deadlock).
Status validate(const Schedule& schedule, const PipelineShape& shape);

// Distinguishes the messages of one iteration on one directed pair of ranks that each hold one
// stage: 2 microbatch + (gradient).
int64_t message_tag(const action::Action& action);

// The largest number of microbatches of a stage whose activations a rank holds at once: F opens, B
// or W closes. A rank with v stages counts each: v of them are as much as one of the undivided
// stage. Between I and W only a part is needed, but all counts.
std::vector<int64_t> peak_in_flight(const Schedule& schedule);

// Bytes at the peak, of a device of each rank: state, activations of the microbatches in flight,
// the largest workspace of its stages, and [prefill].memory. Of a schedule of some pipelines alone, of
// their ranks as it numbers them. A pair takes and frees activations layer
// by layer, so that it needs those of a layer on top and not those of a stage.
std::vector<Bytes> peak_memory(const plan::Plan& plan, const Schedule& schedule);

// Activations that a pair needs at once in addition to those kept before it: a layer of the
// forward's stage, or what its stage has more than the backward's and a layer of that.
Bytes activations_of_pair(const plan::Plan& plan, const Pair& pair);

// Infeasible, naming the stage, what it needs, what the device has and the largest part, where a
// stage does not fit. Of Plans with imagined [stage_times] only their in_flight counts.
Status check_memory(const plan::Plan& plan, const Schedule& schedule);

// One Graph per rank, for one iteration. Computations and collectives last what the Plan says,
// sends carry plan.boundary bytes. Control dependencies keep the order of computations; node names
// are actions. A pair is two nodes: the side that ends first, and what is left of the other.
graph::Graphs to_graph(const plan::Plan& plan, const Schedule& schedule);
// Of these pipelines alone, for which the schedule was built: the other ranks' Graphs are empty, and
// collectives have those ranks that are left. Not of pipelines that send one another gradients.
graph::Graphs to_graph(const plan::Plan& plan, const Schedule& schedule,
                       std::span<const int32_t> replicas);

}  // namespace tombolo::schedule
