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

DensitySteering::DensitySteering(std::span<const DividedPlan> divided, int64_t iterations,
                                 graph::Graphs& graphs)
    : divided_(divided),
      plan_(divided.front().plan),
      iterations_(iterations),
      graphs_(graphs),
      reports_(plan_, 1, /*byte_scale=*/1),
      controller_(tune::controller_options(plan_, plan_.exchange->density_in_use())),
      ahead_(tune::RateController::Options{}.ahead),
      ranks_(graphs.size()),
      reports_at_(graphs.size()),
      densities_(static_cast<size_t>(iterations), plan_.exchange->density_in_use()) {
  for (const graph::Graph& graph : graphs) {
    Rank& rank = ranks_[static_cast<size_t>(graph.rank)];
    rank.passes.resize(static_cast<size_t>(iterations));
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const int64_t iteration = graph.nodes[i].iteration;
      if (std::ssize(rank.begins) < iteration) rank.begins.push_back(i);
      CHECK(std::ssize(rank.begins) == iteration, "a node of iteration {} behind one of {}",
            iteration, rank.begins.size());
      rank.passes[static_cast<size_t>(iteration - 1)] += is_pass(graph.nodes[i]);
    }
    rank.begins.push_back(graph.nodes.size());
    CHECK(std::ssize(rank.begins) == iterations + 1, "{} iterations of {}", rank.begins.size(),
          iterations);
    rank.left = rank.passes.front();
    rank.ends.resize(graph.nodes.size());
    for (size_t i = 0; i < rank.begins[1]; ++i) {
      const Node& node = graph.nodes[i];
      if (node.type != NodeType::kSend || !is_of_exchange(node)) continue;
      const std::pair pair{graph.rank, node.comm_peer};
      if (plan_.ranks[static_cast<size_t>(pair.first)].datacenter ==
          plan_.ranks[static_cast<size_t>(pair.second)].datacenter)
        continue;
      latencies_[pair] =
          round_to_ns(plan::expected_channel(plan_, pair.first, pair.second).latency);
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
  if (iteration < iterations_) rank.left = rank.passes[static_cast<size_t>(iteration)];
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
  size_t part = divided_.size() - 1;
  while (divided_[part].first_iteration > iteration) --part;
  const DividedPlan& divided = divided_[part];
  const std::tuple key{density, divided.first_iteration};
  auto found = by_density_.find(key);
  if (found == by_density_.end()) {
    plan::Plan other = divided.plan;
    other.exchange->density = density;
    found = by_density_.emplace(key, schedule::to_graph(other, divided.schedule)).first;
  }
  for (graph::Graph& graph : graphs_) {
    const auto rank = static_cast<size_t>(graph.rank);
    const size_t first = ranks_[rank].begins[static_cast<size_t>(iteration - 1)];
    const size_t once = ranks_[rank].begins[static_cast<size_t>(iteration)] - first;
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
