// A schedule as the Graph that the simulator interprets.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "schedule/schedule.h"

namespace tombolo::schedule {
namespace {

using graph::Node;
using graph::NodeType;
using trace::Action;
using trace::ActionKind;

SimDuration duration_of(const cost::StageCost& cost, ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return round_to_ns(cost.forward);
    case ActionKind::kBackward:
      return round_to_ns(cost.backward);
    case ActionKind::kRecompute:
      return round_to_ns(cost.recompute);
    case ActionKind::kReduceGradients:
      return round_to_ns(cost.reduce);
    case ActionKind::kUpdate:
      return round_to_ns(cost.update);
    default:
      CHECK(false, "{} has no duration in a Plan", to_name(kind));
  }
}

// What an action takes its input from, as other actions of the same rank; absent ones are skipped.
std::vector<ActionKind> inputs_of(ActionKind kind) {
  using enum ActionKind;
  switch (kind) {
    case kForward:
      return {kReceiveActivation};
    case kRecompute:
      return {kForward, kReceiveGradient};
    case kBackward:
      return {kForward, kReceiveGradient, kRecompute};
    case kSendActivation:
      return {kForward};
    case kSendGradient:
      return {kBackward};
    default:
      return {};
  }
}

// The same pipeline's rank at the other end.
int32_t peer_of(const plan::Plan& plan, int32_t rank, const Action& action) {
  const bool next =
      action.kind == ActionKind::kSendActivation || action.kind == ActionKind::kReceiveGradient;
  return rank + (next ? plan.replicas() : -plan.replicas());
}

}  // namespace

graph::Graphs to_graph(const plan::Plan& plan, const Schedule& schedule) {
  CHECK(schedule.ranks.size() == plan.ranks.size(), "a schedule for {} ranks, a Plan of {}",
        schedule.ranks.size(), plan.ranks.size());
  graph::Graphs graphs;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    graph::Graph graph{static_cast<int32_t>(rank), {}};
    std::map<Action, int64_t> ids;
    int64_t computed_before = -1;
    for (const Action& action : schedule.ranks[rank]) {
      Node node;
      node.id = static_cast<int64_t>(graph.nodes.size());
      node.name = trace::to_text(action);
      for (const ActionKind kind : inputs_of(action.kind)) {
        const auto input = ids.find({kind, action.stage, action.microbatch});
        if (input != ids.end()) node.data_deps.push_back(input->second);
      }
      std::sort(node.data_deps.begin(), node.data_deps.end());
      if (trace::is_communication(action.kind)) {
        node.type = trace::is_send(action.kind) ? NodeType::kSend : NodeType::kReceive;
        node.comm_size = std::llround(plan.boundary.value);
        node.comm_peer = peer_of(plan, graph.rank, action);
        node.comm_tag = message_tag(action);
      } else if (action.kind == ActionKind::kReduceGradients) {
        node.type = NodeType::kCollective;
        node.duration = duration_of(plan.stages[action.stage].cost, action.kind);
        node.comm_size = std::llround(plan.stages[action.stage].gradients.value);
        node.comm_group = plan.replicas_of(action.stage);
        node.ctrl_deps.push_back(computed_before);
        computed_before = node.id;
      } else {
        node.duration = duration_of(plan.stages[action.stage].cost, action.kind);
        if (computed_before >= 0) node.ctrl_deps.push_back(computed_before);
        computed_before = node.id;
      }
      ids.emplace(action, node.id);
      graph.nodes.push_back(std::move(node));
    }
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

}  // namespace tombolo::schedule
