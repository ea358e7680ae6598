#include "predict/sim/density_steering.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::sim {
namespace {

using action::ActionKind;
using graph::Node;
using graph::NodeType;

bool is_of_exchange(const Node& node) {
  return node.action && node.action->kind == ActionKind::kReduceGradients;
}

bool is_update(const Node& node) { return node.action && node.action->kind == ActionKind::kUpdate; }

}  // namespace

DensitySteering::DensitySteering(const plan::Plan& plan, const schedule::Schedule& schedule,
                                 int64_t iterations, graph::Graphs& graphs)
    : plan_(plan),
      schedule_(schedule),
      iterations_(iterations),
      graphs_(graphs),
      reports_(plan, 1, /*byte_scale=*/1),
      controller_(tune::controller_options(plan, plan.exchange->density_in_use())),
      ahead_(tune::RateController::Options{}.ahead),
      ranks_(graphs.size()),
      reports_at_(graphs.size()),
      densities_(static_cast<size_t>(iterations), plan.exchange->density_in_use()) {
  for (const graph::Graph& graph : graphs) {
    Rank& rank = ranks_[static_cast<size_t>(graph.rank)];
    CHECK(graph.nodes.size() % static_cast<size_t>(iterations) == 0, "{} nodes, {} iterations",
          graph.nodes.size(), iterations);
    rank.once = graph.nodes.size() / static_cast<size_t>(iterations);
    for (size_t i = 0; i < rank.once; ++i) rank.passes += is_pass(graph.nodes[i]);
    rank.left = rank.passes;
    rank.ends.resize(graph.nodes.size());
    for (size_t i = 0; i < rank.once; ++i) {
      const Node& node = graph.nodes[i];
      if (node.type != NodeType::kSend || !is_of_exchange(node)) continue;
      const std::pair pair{graph.rank, node.comm_peer};
      if (plan.ranks[static_cast<size_t>(pair.first)].datacenter ==
          plan.ranks[static_cast<size_t>(pair.second)].datacenter)
        continue;
      latencies_[pair] = round_to_ns(plan::expected_channel(plan, pair.first, pair.second).latency);
    }
  }
}

// Updates are made next to passes, each when its group is there.
bool DensitySteering::is_pass(const Node& node) const {
  return node.type == NodeType::kCompute && !(is_update(node) && plan_.updates_by_group());
}

void DensitySteering::finished(const graph::Graph& graph, size_t node, const Span& span) {
  const Node& what = graph.nodes[node];
  ranks_[static_cast<size_t>(graph.rank)].ends[node] = span.end;
  if (what.type == NodeType::kSend && is_of_exchange(what)) arrived(graph, what, span);
  if (is_pass(what)) computed(graph, node, span);
}

void DensitySteering::arrived(const graph::Graph& graph, const Node& send, const Span& span) {
  const auto latency = latencies_.find({graph.rank, send.comm_peer});
  if (latency == latencies_.end()) return;  // it came from the same datacenter
  Rank& rank = ranks_[static_cast<size_t>(send.comm_peer)];
  rank.bytes += send.comm_size;
  const SimTime from = std::max(span.start + latency->second, rank.until);
  if (span.end > from) rank.in_flight += span.end - from;
  rank.until = std::max(rank.until, span.end);
}

// It waited for the exchange from when all else that it needs was there.
void DensitySteering::computed(const graph::Graph& graph, size_t node, const Span& span) {
  Rank& rank = ranks_[static_cast<size_t>(graph.rank)];
  const Node& what = graph.nodes[node];
  SimTime ready;
  bool needs_updates = false;
  for (const auto* dependencies : {&what.data_deps, &what.ctrl_deps}) {
    for (const int64_t id : *dependencies) {
      const auto other = static_cast<size_t>(id);
      const Node& needed = graph.nodes[other];
      if (is_update(needed) || is_of_exchange(needed)) {
        needs_updates = true;
      } else {
        ready = std::max(ready, rank.ends[other]);
      }
    }
  }
  if (needs_updates && span.start > ready) rank.waited += span.start - ready;
  if (--rank.left == 0) report(graph.rank, what.iteration, span.end);
}

void DensitySteering::report(int32_t number, int64_t iteration, SimTime now) {
  Rank& rank = ranks_[static_cast<size_t>(number)];
  std::vector<SimTime>& at = reports_at_[static_cast<size_t>(number)];
  const SimDuration since = now - (at.empty() ? SimTime{} : at.back());
  at.push_back(now);
  const bool exchanges = plan_.replicas_lie_apart(plan_.ranks[static_cast<size_t>(number)].stage);
  std::optional<tune::RankReport> what;
  if (exchanges) {
    what = {.computing = std::max(since - rank.waited, SimDuration{}),
            .waited = rank.waited,
            .bytes = rank.bytes,
            .in_flight = rank.in_flight};
  }
  rank.waited = rank.in_flight = {};
  rank.bytes = 0;
  rank.left = rank.passes;
  const auto line = reports_.add(number, iteration, what);
  if (!line) return;
  const auto decision = controller_.add(*line);
  if (decision && decision->first_iteration <= iterations_) decisions_.push_back(*decision);
  beliefs_.push_back({iteration + ahead_, controller_.rate()});
  set_density(iteration + ahead_, controller_.density());
}

void DensitySteering::set_density(int64_t iteration, double density) {
  if (iteration > iterations_) return;
  densities_[static_cast<size_t>(iteration - 1)] = density;
  auto found = by_density_.find(density);
  if (found == by_density_.end()) {
    plan::Plan other = plan_;
    other.exchange->density = density;
    found = by_density_.emplace(density, schedule::to_graph(other, schedule_)).first;
  }
  for (graph::Graph& graph : graphs_) {
    const auto rank = static_cast<size_t>(graph.rank);
    const size_t once = ranks_[rank].once;
    const size_t first = once * static_cast<size_t>(iteration - 1);
    const std::vector<Node>& sizes = found->second[rank].nodes;
    CHECK(sizes.size() == once, "{} nodes at density {}, {} before", sizes.size(), density, once);
    for (size_t i = 0; i < once; ++i) {
      Node& node = graph.nodes[first + i];
      const bool message = node.type == NodeType::kSend || node.type == NodeType::kReceive;
      if (message && is_of_exchange(node)) node.comm_size = sizes[i].comm_size;
    }
  }
}

}  // namespace tombolo::sim
