// Pipeline schedules as values: for every rank, the actions it performs, in order.
//
// A schedule is built by small passes: a named policy orders the computations (gpipe.cc,
// one_forward_one_backward.cc), add_communication inserts sends and receives, validate checks what
// must hold of any schedule. to_graph turns the value into the Graph that the simulator interprets;
// the runtime performs the value itself.
//
// How actions are meant: computations of a rank run one after the other, in this order. A send is
// handed over and proceeds by itself; a receive waits until its message is there. The messages of a
// directed pair of ranks travel in the order of their sends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "trace/action.h"

namespace tombolo::schedule {

using Order = std::vector<trace::Action>;

struct Schedule {
  std::string name;
  std::vector<Order> ranks;  // ranks[r]: what rank r does in one iteration

  bool operator==(const Schedule&) const = default;
};

// The shape that schedules depend on.
struct Shape {
  int32_t stages = 1;
  int32_t microbatches = 1;     // of one pipeline
  std::vector<bool> recompute;  // per stage: R before each B; empty: nowhere
  int32_t replicas = 1;         // pipelines side by side; rank = stage x replicas + replica

  int32_t ranks() const { return stages * replicas; }
  int32_t stage_of(int32_t rank) const { return rank / replicas; }
  bool recomputes(int32_t stage) const { return !recompute.empty() && recompute[stage]; }
};
Shape shape_of(const plan::Plan& plan);

// The names that build() knows: "gpipe", "1f1b".
std::vector<std::string> schedule_names();

// The whole schedule of one iteration: computations, communication and the optimizer update.
// Replicas of a stage follow the same order, and sum their gradients before the update. Unusable,
// naming the known ones, for a name that is not there yet; and above kActionsMax actions, before
// any memory is spent on them.
inline constexpr int64_t kActionsMax = 50'000'000;
Result<Schedule> build(const plan::Plan& plan);
Result<Schedule> build(const std::string& name, const Shape& shape);

// What must hold of any schedule: every stage runs F, then R where it recomputes, then B of every
// micro-batch, once; B of a micro-batch follows its F; one update at the end, and where there are
// replicas the sum of gradients right before it; every computation that needs a message is preceded
// by its receive, every send by its computation; sends and receives of a pair agree in order; and
// all ranks together can finish (no deadlock).
Status validate(const Schedule& schedule, const Shape& shape);

// Distinguishes the messages of one iteration on one directed pair of ranks: 2 microbatch +
// (gradient).
int64_t message_tag(const trace::Action& action);

// The largest number of micro-batches whose activations a rank holds at once: F opens, B closes.
std::vector<int64_t> peak_in_flight(const Schedule& schedule);

// Bytes at the peak, per rank: state + activations x micro-batches in flight.
std::vector<Bytes> peak_memory(const plan::Plan& plan, const Schedule& schedule);

// Infeasible, naming the stage, what it needs, what the device has and the largest part, where a
// stage does not fit. Plans with imagined [stage_times] pass: their model is not the point.
Status check_memory(const plan::Plan& plan, const Schedule& schedule);

// One Graph per rank, for one iteration. Computations and collectives last what the Plan says,
// sends carry plan.boundary bytes. Control dependencies keep the order of computations; node names
// are actions.
graph::Graphs to_graph(const plan::Plan& plan, const Schedule& schedule);

}  // namespace tombolo::schedule
