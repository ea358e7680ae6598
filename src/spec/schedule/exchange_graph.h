// The exchange of a stage's gradients as nodes of a Graph: group by group, the messages of
// gradient_exchange.h, and what waits for them.
//
//   passes     The last backward pass of the stage is cut where a group's gradient is complete, and
//              the first forward pass where a group is needed, so that others may wait for a part.
//   messages   Groups leave in the reverse of need, but a group that is needed earlier overtakes
//              those that wait (comm_priority; sim::repeat lets earlier iterations go first). With
//              order = "first-come" none overtakes another one of its iteration.
//   sums       A node that takes no time says when a group is summed on this rank; its first
//              dependency is what handed the group over.
//   updates    One for each group, as soon as it is summed; or one of all, in its place in the
//              schedule, when all of the rank's groups are (Plan::updates_by_group). The first forward
//              pass of the next iteration carries them.
//
//   outer      With local steps (local_steps.h), the messages of an outer step after each update. A Graph
//   steps      of one iteration has those of all groups; OuterCalendar says which are left out in
//              which iteration. The first forward pass waits for the step that ends before it.
//
// Node::part says of each of them which group it is about.
//
// Without overlap all groups are handed over after the rank's last backward pass, one update waits
// for all, and the next iteration for the update.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "spec/graph/graph.h"
#include "spec/plan/gradient_groups.h"
#include "spec/plan/plan.h"
#include "spec/schedule/gradient_exchange.h"
#include "spec/schedule/local_steps.h"

namespace tombolo::schedule::detail {

// What is the same for all ranks of a stage.
struct StageExchange {
  struct Group {
    plan::GradientGroup what;
    int64_t bytes = 0;          // as gradients, of one shard
    GradientExchange exchange;  // in elements of one shard
    int64_t first_tag = 0;      // of its messages, in the order of their rounds
    // With local steps, else empty.
    GradientExchange outer = {};
    int64_t first_outer_tag = 0;
    OuterSteps steps = {};
  };
  int32_t stage = 0;
  const plan::Plan* plan = nullptr;
  std::vector<Group> groups;  // in the order of need
  int64_t end_tag = 0;        // behind the last
};

// Tags count from `first_tag`; exchanges of one position must not share any.
StageExchange exchange_of(const plan::Plan& plan, int32_t stage, int64_t first_tag);
// By stage, of those whose gradients go by messages.
std::map<int32_t, StageExchange> exchanges_of(const plan::Plan& plan);

// The durations of `pass` cut at these shares of it, which ascend from above 0 to 1.
std::vector<SimDuration> cut(SimDuration pass, const std::vector<double>& shares);

// Bytes on the wire of one message, all shards of a rank side by side.
int64_t message_bytes(const StageExchange& stage, const ExchangeMessage& message, int64_t shards);

// Appends the messages of a group among `ranks` (of the replicas) to the graph of the one whose
// replica is `own`, from when node `ready` is finished. Returns the node that says it is summed.
int64_t add_group(const StageExchange& stage, size_t group, const std::vector<int32_t>& ranks,
                  int32_t own, int64_t shards, int64_t ready, graph::Graph& graph);
// The same of its outer step; the node says that all updates are there.
int64_t add_outer(const StageExchange& stage, size_t group, const std::vector<int32_t>& ranks,
                  int32_t own, int64_t shards, int64_t ready, graph::Graph& graph);

// When outer steps are made.
class OuterCalendar {
 public:
  explicit OuterCalendar(const plan::Plan& plan);
  // Whether a node of a Graph of one iteration, from add_outer, sends, receives and gathers nothing in
  // this one, from 1.
  bool leaves_out(const graph::Node& node, int64_t iteration) const;

 private:
  struct Tags {
    int64_t first = 0, end = 0;
    OuterSteps steps;
  };
  std::vector<Tags> tags_;  // ascending
};

}  // namespace tombolo::schedule::detail
