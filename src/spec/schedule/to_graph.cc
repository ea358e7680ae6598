// A schedule as the Graph that the simulator interprets.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <unordered_map>

#include "base/check.h"
#include "spec/schedule/exchange_graph.h"
#include "spec/schedule/schedule.h"

namespace tombolo::schedule {
namespace {

using action::Action;
using action::ActionKind;
using graph::Node;
using graph::NodeType;

SimDuration duration_of(const plan::Plan& plan, int32_t rank, const Action& action) {
  const plan::StageCost& cost = plan.cost_on(rank, action.stage);
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
std::span<const ActionKind> inputs_of(ActionKind kind) {
  using enum ActionKind;
  static constexpr ActionKind kOfForward[] = {kReceiveActivation};
  static constexpr ActionKind kOfRecompute[] = {kForward, kReceiveGradient};
  static constexpr ActionKind kOfBackward[] = {kForward, kReceiveGradient, kRecompute};
  static constexpr ActionKind kOfBackwardWeight[] = {kBackwardInput};
  static constexpr ActionKind kOfSendActivation[] = {kForward};
  static constexpr ActionKind kOfSendGradient[] = {kBackward, kBackwardInput};
  switch (kind) {
    case kForward:
      return kOfForward;
    case kRecompute:
      return kOfRecompute;
    case kBackward:
    case kBackwardInput:
      return kOfBackward;
    case kBackwardWeight:
      return kOfBackwardWeight;
    case kSendActivation:
      return kOfSendActivation;
    case kSendGradient:
      return kOfSendGradient;
    default:
      return {};
  }
}

// The same pipeline's rank at the other end.
int32_t peer_of(const PipelineShape& shape, int32_t rank, const Action& action) {
  const int32_t stage = action.stage + (towards_next(action.kind) ? 1 : -1);
  return shape.rank_of(stage, rank % shape.replicas);
}

// Tells messages of a pair of ranks apart: those of one chunk's boundaries by message_tag.
int64_t tag_of(const PipelineShape& shape, const Action& message) {
  const int64_t chunk = boundary_of(message) / shape.positions();
  return chunk * 2 * shape.microbatches + message_tag(message);
}

// Behind those of all boundaries.
int64_t tied_tag(const PipelineShape& shape) { return 2 * shape.chunks * shape.microbatches; }

// The computations of a rank, in their order, and its gradient all-reduces, which overlap with the
// last of them.
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

  int64_t first() const { return computations_.front(); }
  int64_t last() const { return computations_.back(); }
  // What has ended when all computations and sums so far have.
  std::vector<int64_t> ends() const {
    std::vector<int64_t> out{computations_.back()};
    if (sum_ >= 0) out.push_back(sum_);
    return out;
  }

 private:
  void begin_beside(Node& node, SimDuration hidden, const std::vector<Node>& nodes) const {
    SimDuration span;
    const Node* beside = nullptr;
    for (auto id = computations_.rbegin(); id != computations_.rend() && span < hidden; ++id) {
      beside = &nodes[static_cast<size_t>(*id)];
      span += beside->duration;
    }
    CHECK(beside, "a gradient all-reduce before anything was computed");
    node.ctrl_deps = beside->ctrl_deps;
    node.data_deps = beside->data_deps;
    node.delay = beside->delay + std::max(SimDuration{}, span - hidden);
  }

  std::vector<int64_t> computations_;
  int64_t sum_ = -1;
  bool beside_ = false;
};

// Of all sums of a rank.
SimDuration hidden_sums(const plan::Plan& plan, int32_t rank, const std::vector<Action>& actions) {
  SimDuration hidden;
  for (const Action& action : actions) {
    if (action.kind != ActionKind::kReduceGradients) continue;
    hidden += round_to_ns(plan.cost_on(rank, action.stage).reduce_hidden);
  }
  return hidden;
}

SimDuration release_of(const Schedule& schedule, int32_t replica) {
  return schedule.release.empty() ? SimDuration{} : schedule.release[static_cast<size_t>(replica)];
}

struct HashOfAction {
  size_t operator()(const Action& action) const {
    const auto place =
        (static_cast<uint64_t>(action.stage) << 32) ^ static_cast<uint32_t>(action.microbatch);
    return std::hash<uint64_t>{}(place * 32 + static_cast<uint64_t>(action.kind));
  }
};

// Builds the graph of one rank, action by action.
class RankGraph {
 public:
  // `scheduled`: its number in the schedule. `exchanges`: by stage; of those whose gradients go by
  // messages.
  RankGraph(const plan::Plan& plan, const Schedule& schedule, const PipelineShape& shape,
            int32_t rank, size_t scheduled,
            const std::map<int32_t, detail::StageExchange>& exchanges,
            std::span<const int32_t> replicas)
      : plan_(plan),
        shape_(shape),
        exchanges_(exchanges),
        replicas_(replicas),
        actions_(schedule.ranks[scheduled]),
        pairs_(schedule.pairs.empty() ? std::vector<Pair>{} : schedule.pairs[scheduled]),
        release_(release_of(schedule, rank % shape.replicas)),
        overlaps_(!exchanges.empty() && plan.exchange_overlaps()),
        by_group_(overlaps_ && plan.updates_by_group()),
        first_come_(plan.exchange.value_or(plan::Exchange{}).is_first_come()),
        hidden_(hidden_sums(plan, rank, actions_)),
        graph_{rank, {}} {
    ids_.reserve(actions_.size());
    graph_.nodes.reserve(actions_.size());
    for (const Action& action : actions_) {
      if (is_backward(action.kind)) last_backward_[action.stage] = action;
    }
  }

  graph::Graph build() {
    size_t next_pair = 0;
    for (size_t i = 0; i < actions_.size(); ++i) {
      if (next_pair < pairs_.size() && actions_[i] == pairs_[next_pair].forward) {
        add_pair(pairs_[next_pair++]);
        ++i;  // its backward
      } else {
        add(actions_[i]);
      }
    }
    carry();
    return std::move(graph_);
  }

 private:
  // Of a stage that exchanges: what its groups wait for, and what waits for them, in the order of
  // need.
  struct Exchanged {
    std::vector<int64_t> complete, summed, updated, needs;
    std::vector<int64_t> arrived;  // with local steps, of outer ones
  };

  static bool is_backward(ActionKind kind) {
    return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput ||
           kind == ActionKind::kBackwardWeight;
  }

  void add(const Action& action) {
    const auto exchange = exchanges_.find(action.stage);
    const bool exchanges = exchange != exchanges_.end();
    if (action::is_communication(action.kind)) {
      add_message(action);
    } else if (action.kind == ActionKind::kReduceGradients) {
      exchanges ? add_groups(exchange->second) : add_collective(action);
    } else if (exchanges && by_group_ && action.kind == ActionKind::kUpdate) {
      add_updates(exchange->second);
    } else if (exchanges && overlaps_ && action == last_backward_.at(action.stage)) {
      add_last_backward(action, exchange->second);
    } else if (exchanges && overlaps_ && action.kind == ActionKind::kForward &&
               exchanged_[action.stage].needs.empty()) {
      add_first_forward(action, exchange->second);
    } else {
      const bool updates = action.kind == ActionKind::kUpdate;
      if (updates && !ended_) end_gradients();
      Node node = node_of(action);
      node.duration = duration_of(plan_, graph_.rank, action);
      if (exchanges && updates) node.data_deps = summed();
      if (updates && tied_ >= 0) node.data_deps.push_back(tied_);
      order_.compute(node);
      if (exchanges && action.kind == ActionKind::kUpdate) {
        exchanged_[action.stage].updated.assign(exchange->second.groups.size(), node.id);
      }
      file(action, std::move(node));
    }
  }

  // The side that ends first, once the inputs of both are there, and behind it what is left of the
  // other.
  void add_pair(const Pair& pair) {
    const PairDurations durations = times_of_pair(pair);
    const bool forward_first = durations.forward_ends_first();
    const Action& first = forward_first ? pair.forward : pair.backward;
    const Action& second = forward_first ? pair.backward : pair.forward;
    const SimDuration ends = std::min(durations.forward_end, durations.backward_end);
    Node node = node_of(first);
    const std::vector<int64_t> others = node_of(second).data_deps;
    node.data_deps.insert(node.data_deps.end(), others.begin(), others.end());
    std::sort(node.data_deps.begin(), node.data_deps.end());
    node.data_deps.erase(std::unique(node.data_deps.begin(), node.data_deps.end()),
                         node.data_deps.end());
    node.duration = ends;
    const int64_t id = node.id;
    order_.compute(node);
    file(first, std::move(node));
    Node rest = node_of(second);
    rest.duration = durations.duration() - ends;
    rest.details.edit().co_executed_with = id;
    order_.compute(rest);
    file(second, std::move(rest));
  }

  PairDurations times_of_pair(const Pair& pair) const {
    for (const plan::PairCost& cost : plan_.pairs) {
      if (cost.forward != pair.forward.stage || cost.backward != pair.backward.stage) continue;
      return {cost.forward, cost.backward, round_to_ns(cost.forward_end),
              round_to_ns(cost.backward_end)};
    }
    CHECK(false, "the Plan has no pair of stages {} and {}", pair.forward.stage,
          pair.backward.stage);
  }

  Node node_of(const Action& action) {
    Node node;
    node.id = static_cast<int64_t>(graph_.nodes.size());
    node.name = action::to_text(action);
    node.action = action;
    for (const ActionKind kind : inputs_of(action.kind)) {
      const auto input = ids_.find({kind, action.stage, action.microbatch});
      if (input != ids_.end()) node.data_deps.push_back(input->second);
    }
    std::sort(node.data_deps.begin(), node.data_deps.end());
    // The pipeline begins with the first forward of its first stage.
    if (action.kind == ActionKind::kForward && action.stage == 0 && !begun_) {
      begun_ = true;
      node.delay = release_;
    }
    return node;
  }

  void file(const Action& action, Node node) {
    ids_.insert_or_assign(action, node.id);
    graph_.nodes.push_back(std::move(node));
  }

  void add_message(const Action& action) {
    Node node = node_of(action);
    node.type = action::is_send(action.kind) ? NodeType::kSend : NodeType::kReceive;
    node.comm_size = std::llround(plan_.boundary.value);
    node.comm_peer = peer_of(shape_, graph_.rank, action);
    node.comm_tag = tag_of(shape_, action);
    file(action, std::move(node));
  }

  void add_collective(const Action& action) {
    Node node = node_of(action);
    node.type = NodeType::kCollective;
    node.duration = duration_of(plan_, graph_.rank, action);
    node.comm_size = std::llround(plan_.stages[action.stage].gradients.value);
    const std::vector<int32_t> all = plan_.replicas_of(action.stage);
    for (const int32_t replica : replicas_) {
      node.comm_group.push_back(all[static_cast<size_t>(replica)]);
    }
    node.comm_tag = action.stage / shape_.positions();
    order_.sum(node, hidden_, graph_.nodes);
    file(action, std::move(node));
  }

  // A pass in parts, one after the other, of the groups `first`, `first + step`, ...; the last one
  // stands for it. Returns the parts' ids.
  std::vector<int64_t> add_parts(const Action& action, const std::vector<double>& shares,
                                 int32_t first, int32_t step) {
    std::vector<int64_t> parts;
    for (const SimDuration part : detail::cut(duration_of(plan_, graph_.rank, action), shares)) {
      Node node = node_of(action);
      node.part = first + step * static_cast<int32_t>(parts.size());
      node.duration = part;
      order_.compute(node);
      parts.push_back(node.id);
      file(action, std::move(node));
    }
    return parts;
  }

  // The last group comes first.
  void add_last_backward(const Action& action, const detail::StageExchange& exchange) {
    std::vector<double> shares;
    for (const auto& group : exchange.groups) shares.push_back(group.what.complete_at);
    std::reverse(shares.begin(), shares.end());
    const auto last = static_cast<int32_t>(shares.size()) - 1;
    std::vector<int64_t> parts = add_parts(action, shares, last, -1);
    std::reverse(parts.begin(), parts.end());
    exchanged_[action.stage].complete = std::move(parts);
  }

  // A part for each group, from where it is needed.
  void add_first_forward(const Action& action, const detail::StageExchange& exchange) {
    std::vector<double> shares;
    for (size_t g = 1; g < exchange.groups.size(); ++g) {
      shares.push_back(exchange.groups[g].what.needed_at);
    }
    shares.push_back(1);
    exchanged_[action.stage].needs = add_parts(action, shares, 0, 1);
  }

  void add_groups(const detail::StageExchange& exchange) {
    Exchanged& stage = exchanged_[exchange.stage];
    const std::vector<int32_t> ranks = plan_.replicas_of(exchange.stage);
    const int64_t shards = plan_.ranks[static_cast<size_t>(graph_.rank)].shards;
    stage.summed.resize(exchange.groups.size());
    for (size_t g = exchange.groups.size(); g-- > 0;) {
      const int64_t ready = overlaps_ ? stage.complete[g] : order_.last();
      stage.summed[g] = detail::add_group(exchange, g, ranks, graph_.rank % shape_.replicas, shards,
                                          ready, graph_);
    }
  }

  // Before the first update, when all gradients of this rank are complete and summed: where it holds one
  // of two copies of a tied embedding, its gradient goes to the other end of the pipeline, and updates
  // wait for the other's. Only a rank that updates after all its sums has such an end.
  void end_gradients() {
    ended_ = true;
    const std::optional<int32_t> other = plan_.other_end(graph_.rank);
    if (!other) return;
    const bool first = plan_.ranks[static_cast<size_t>(graph_.rank)].stage == shape_.position_of(0);
    const int32_t end = first ? 0 : shape_.stages - 1;
    std::vector<int64_t> ready = order_.ends();
    for (const int64_t id : summed()) ready.push_back(id);
    std::sort(ready.begin(), ready.end());
    for (const NodeType type : {NodeType::kSend, NodeType::kReceive}) {
      Node node = node_of({ActionKind::kSumTied, end, -1});
      node.type = type;
      node.comm_size = std::llround(plan::tied_bytes(plan_, plan_.model).value);
      node.comm_peer = *other;
      node.comm_tag = tied_tag(shape_);
      if (type == NodeType::kSend) node.data_deps = ready;
      tied_ = node.id;
      graph_.nodes.push_back(std::move(node));
    }
  }

  // Of all stages of this rank.
  std::vector<int64_t> summed() const {
    std::vector<int64_t> out;
    for (const auto& [stage, each] : exchanged_) {
      out.insert(out.end(), each.summed.begin(), each.summed.end());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  // In no order but that of the groups' turns: each as soon as it may.
  void add_updates(const detail::StageExchange& exchange) {
    Exchanged& stage = exchanged_[exchange.stage];
    const Action action{ActionKind::kUpdate, exchange.stage, -1};
    std::vector<double> shares;
    double until = 0;
    for (const auto& group : exchange.groups) {
      until += group.what.bytes.value;
      const double all = plan_.stages[action.stage].gradients.value;
      shares.push_back(all > 0 ? std::min(1.0, until / all) : 1);
    }
    shares.back() = 1;
    const std::vector<SimDuration> parts =
        detail::cut(duration_of(plan_, graph_.rank, action), shares);
    stage.updated.resize(parts.size());
    for (const size_t g : turns(parts.size())) {
      Node node = node_of(action);
      node.part = static_cast<int32_t>(g);
      node.duration = parts[g];
      node.data_deps = {stage.summed[g]};
      stage.updated[g] = node.id;
      file(action, std::move(node));
    }
    if (!exchange.groups.front().outer.rounds.empty()) add_outer_steps(exchange);
  }

  void add_outer_steps(const detail::StageExchange& exchange) {
    Exchanged& stage = exchanged_[exchange.stage];
    const std::vector<int32_t> ranks = plan_.replicas_of(exchange.stage);
    const int64_t shards = plan_.ranks[static_cast<size_t>(graph_.rank)].shards;
    stage.arrived.resize(exchange.groups.size());
    for (const size_t g : turns(exchange.groups.size())) {
      stage.arrived[g] = detail::add_outer(exchange, g, ranks, graph_.rank % shape_.replicas,
                                           shards, stage.updated[g], graph_);
    }
  }

  // The order of `groups` groups, where several may go: by need, or the reverse.
  std::vector<size_t> turns(size_t groups) const {
    std::vector<size_t> out(groups);
    std::iota(out.begin(), out.end(), size_t{0});
    if (first_come_) std::reverse(out.begin(), out.end());
    return out;
  }

  // A node that takes no time and says of the iteration before that `id` was finished in it.
  int64_t remember(int64_t id) {
    Node node = node_of(*graph_.nodes[static_cast<size_t>(id)].action);
    node.type = NodeType::kInvalid;
    node.details.edit().carried_deps = {id};
    graph_.nodes.push_back(node);
    return node.id;
  }

  // What the next iteration waits for on a rank that exchanges: its order, and parameter by
  // parameter; with staleness, of the iteration before.
  void carry() {
    if (exchanged_.empty() || !overlaps_) return;
    const int64_t staleness = plan_.exchange.value_or(plan::Exchange{}).staleness_in_use();
    graph_.nodes[static_cast<size_t>(order_.first())].details.edit().carried_deps = {order_.last()};
    for (const auto& [number, stage] : exchanged_) {
      for (size_t g = 0; g < stage.needs.size(); ++g) {
        int64_t updated = stage.updated[g];
        for (int64_t i = 0; i < staleness; ++i) updated = remember(updated);
        std::vector<int64_t> waits{updated};
        if (!stage.arrived.empty()) {
          int64_t arrived = stage.arrived[g];
          const int64_t delay = exchanges_.at(number).groups[g].steps.delay;
          for (int64_t i = 0; i < delay; ++i) arrived = remember(arrived);
          waits.push_back(arrived);
        }
        auto& carried =
            graph_.nodes[static_cast<size_t>(stage.needs[g])].details.edit().carried_deps;
        carried.insert(carried.end(), waits.begin(), waits.end());
      }
    }
  }

  const plan::Plan& plan_;
  const PipelineShape& shape_;
  const std::map<int32_t, detail::StageExchange>& exchanges_;
  const std::span<const int32_t> replicas_;
  const RankActions& actions_;
  const std::vector<Pair> pairs_;
  const SimDuration release_;
  const bool overlaps_;
  const bool by_group_;    // updates
  const bool first_come_;  // the group goes first that was complete first
  const SimDuration hidden_;
  graph::Graph graph_;
  std::unordered_map<Action, int64_t, HashOfAction> ids_;  // looked up, never iterated
  std::map<int32_t, Action> last_backward_;
  std::map<int32_t, Exchanged> exchanged_;
  RankOrder order_;
  bool begun_ = false;
  bool ended_ = false;  // all its gradients are complete
  int64_t tied_ = -1;   // what came from the other end of the pipeline
};

}  // namespace

graph::Graphs to_graph(const plan::Plan& plan, const Schedule& schedule) {
  std::vector<int32_t> all(static_cast<size_t>(plan.replicas()));
  std::iota(all.begin(), all.end(), 0);
  return to_graph(plan, schedule, all);
}

graph::Graphs to_graph(const plan::Plan& plan, const Schedule& schedule,
                       std::span<const int32_t> replicas) {
  const PipelineShape shape = shape_of(plan);
  const size_t scheduled = schedule.ranks.size() / static_cast<size_t>(shape.positions());
  CHECK(scheduled >= replicas.size() && schedule.ranks.size() % scheduled == 0,
        "a schedule for {} ranks, {} pipelines of {}", schedule.ranks.size(), replicas.size(),
        shape.positions());
  const std::map<int32_t, detail::StageExchange> exchanges = detail::exchanges_of(plan);
  CHECK(exchanges.empty() || std::ssize(replicas) == shape.replicas,
        "{} of {} pipelines, which send one another gradients", replicas.size(), shape.replicas);
  graph::Graphs graphs;
  for (int32_t rank = 0; rank < shape.ranks(); ++rank) graphs.push_back({rank, {}});
  for (int32_t position = 0; position < shape.positions(); ++position) {
    for (size_t i = 0; i < replicas.size(); ++i) {
      const int32_t rank = position * shape.replicas + replicas[i];
      const size_t number = static_cast<size_t>(position) * scheduled + i;
      graphs[static_cast<size_t>(rank)] =
          RankGraph(plan, schedule, shape, rank, number, exchanges, replicas).build();
    }
  }
  return graphs;
}

}  // namespace tombolo::schedule
