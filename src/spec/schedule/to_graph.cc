// A schedule as the Graph that the simulator interprets.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "spec/schedule/schedule.h"

namespace tombolo::schedule {
namespace {

using action::Action;
using action::ActionKind;
using graph::Node;
using graph::NodeType;

SimDuration duration_of(const plan::Plan& plan, const Action& action) {
  const plan::StageCost& cost = plan.stages[action.stage].cost;
  switch (action.kind) {
    case ActionKind::kForward:
      return round_to_ns(cost.forward);
    case ActionKind::kBackward:
      return round_to_ns(cost.backward);
    case ActionKind::kBackwardInput:
      return durations_of(cost).backward_input;
    case ActionKind::kBackwardWeight:
      return durations_of(cost).backward_weight;
    case ActionKind::kRecompute:
      return round_to_ns(cost.recompute);
    case ActionKind::kReduceGradients:
      return round_to_ns(cost.reduce) + round_to_ns(cost.reduce_hidden);
    case ActionKind::kUpdate:
      return round_to_ns(cost.update);
    default:
      CHECK(false, "{} has no duration in a Plan", to_name(action.kind));
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
    case kBackwardInput:
      return {kForward, kReceiveGradient, kRecompute};
    case kBackwardWeight:
      return {kBackwardInput};
    case kSendActivation:
      return {kForward};
    case kSendGradient:
      return {kBackward, kBackwardInput};
    default:
      return {};
  }
}

// The same pipeline's rank at the other end.
int32_t peer_of(const Shape& shape, int32_t rank, const Action& action) {
  const int32_t stage = action.stage + (towards_next(action.kind) ? 1 : -1);
  return shape.rank_of(stage, rank % shape.replicas);
}

// Tells messages of a pair of ranks apart: those of one chunk's boundaries by message_tag.
int64_t tag_of(const Shape& shape, const Action& message) {
  const int64_t chunk = boundary_of(message) / shape.positions();
  return chunk * 2 * shape.microbatches + message_tag(message);
}

// The computations of a rank, in their order, and its sums of gradients, which run beside the last
// of them.
class RankOrder {
 public:
  // `node` computes after all that came before it.
  void compute(Node& node) {
    const bool sums_waited = sum_ >= 0 && !beside_;
    if (!computations_.empty() && !sums_waited) node.ctrl_deps.push_back(computations_.back());
    if (sum_ >= 0) node.ctrl_deps.push_back(sum_);
    computations_.push_back(node.id);
    sum_ = -1;
  }
  // The first of the sums begins so long before the computations before it are over that `hidden`
  // of all sums is behind them (of the time that the rank computes: waiting hides more); the next
  // ones follow it.
  void sum(Node& node, SimDuration hidden, const std::vector<Node>& nodes) {
    if (sum_ >= 0) {
      node.ctrl_deps.push_back(sum_);
    } else if (hidden.ns == 0) {
      node.ctrl_deps.push_back(computations_.back());
    } else {
      begin_beside(node, hidden, nodes);
      beside_ = true;
    }
    sum_ = node.id;
  }

 private:
  void begin_beside(Node& node, SimDuration hidden, const std::vector<Node>& nodes) const {
    SimDuration span;
    const Node* beside = nullptr;
    for (auto id = computations_.rbegin(); id != computations_.rend() && span < hidden; ++id) {
      beside = &nodes[static_cast<size_t>(*id)];
      span += beside->duration;
    }
    CHECK(beside, "a sum of gradients before anything was computed");
    node.ctrl_deps = beside->ctrl_deps;
    node.data_deps = beside->data_deps;
    node.delay = beside->delay + std::max(SimDuration{}, span - hidden);
  }

  std::vector<int64_t> computations_;
  int64_t sum_ = -1;
  bool beside_ = false;
};

// Of all sums of a rank.
SimDuration hidden_sums(const plan::Plan& plan, const std::vector<Action>& actions) {
  SimDuration hidden;
  for (const Action& action : actions) {
    if (action.kind != ActionKind::kReduceGradients) continue;
    hidden += round_to_ns(plan.stages[action.stage].cost.reduce_hidden);
  }
  return hidden;
}

SimDuration release_of(const Schedule& schedule, int32_t replica) {
  return schedule.release.empty() ? SimDuration{} : schedule.release[static_cast<size_t>(replica)];
}

}  // namespace

graph::Graphs to_graph(const plan::Plan& plan, const Schedule& schedule) {
  CHECK(schedule.ranks.size() == plan.ranks.size(), "a schedule for {} ranks, a Plan of {}",
        schedule.ranks.size(), plan.ranks.size());
  const Shape shape = shape_of(plan);
  graph::Graphs graphs;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    graph::Graph graph{static_cast<int32_t>(rank), {}};
    std::map<Action, int64_t> ids;
    RankOrder order;
    const SimDuration hidden = hidden_sums(plan, schedule.ranks[rank]);
    bool begun = false;  // the pipeline, with the first forward of its first stage
    for (const Action& action : schedule.ranks[rank]) {
      Node node;
      node.id = static_cast<int64_t>(graph.nodes.size());
      node.name = action::to_text(action);
      node.action = action;
      for (const ActionKind kind : inputs_of(action.kind)) {
        const auto input = ids.find({kind, action.stage, action.microbatch});
        if (input != ids.end()) node.data_deps.push_back(input->second);
      }
      std::sort(node.data_deps.begin(), node.data_deps.end());
      if (action::is_communication(action.kind)) {
        node.type = action::is_send(action.kind) ? NodeType::kSend : NodeType::kReceive;
        node.comm_size = std::llround(plan.boundary.value);
        node.comm_peer = peer_of(shape, graph.rank, action);
        node.comm_tag = tag_of(shape, action);
      } else if (action.kind == ActionKind::kReduceGradients) {
        node.type = NodeType::kCollective;
        node.duration = duration_of(plan, action);
        node.comm_size = std::llround(plan.stages[action.stage].gradients.value);
        node.comm_group = plan.replicas_of(action.stage);
        node.comm_tag = action.stage / shape.positions();
        order.sum(node, hidden, graph.nodes);
      } else {
        node.duration = duration_of(plan, action);
        order.compute(node);
      }
      const bool begins_pipeline =
          action.kind == ActionKind::kForward && action.stage == 0 && !begun;
      if (begins_pipeline) {
        begun = true;
        node.delay = release_of(schedule, graph.rank % shape.replicas);
      }
      ids.emplace(action, node.id);
      graph.nodes.push_back(std::move(node));
    }
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

}  // namespace tombolo::schedule
