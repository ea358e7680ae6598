#include "spec/graph/graph.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <tuple>

namespace tombolo::graph {
namespace {

// A node of a message, by what its two sides agree on.
struct Part {
  int32_t source = 0, destination = 0;
  int64_t tag = 0;
  size_t index = 0;  // among the nodes of all ranks
  const Node* node = nullptr;
  bool matched = false;

  auto key() const { return std::tie(source, destination, tag); }
};
bool by_key(const Part& a, const Part& b) { return a.key() < b.key(); }

tl::unexpected<Error> wrong(const Graph& graph, const Node& node, std::string why) {
  return unusable(
      fmt::format("rank {}, node {} (\"{}\"): {}", graph.rank, node.id, node.name, why));
}

// Position of a node id in its graph, or -1. Ids ascend.
ptrdiff_t position(const Graph& graph, int64_t id) {
  const auto guess = static_cast<size_t>(id);  // most count from 0 without a gap
  if (guess < graph.nodes.size() && graph.nodes[guess].id == id) {
    return static_cast<ptrdiff_t>(guess);
  }
  const auto it =
      std::lower_bound(graph.nodes.begin(), graph.nodes.end(), id,
                       [](const Node& node, int64_t wanted) { return node.id < wanted; });
  if (it == graph.nodes.end() || it->id != id) return -1;
  return it - graph.nodes.begin();
}

Status check_node(const Graph& graph, const Node& node, size_t ranks) {
  if (node.duration.ns < 0) return wrong(graph, node, "its duration is negative");
  if (node.delay.ns < 0) return wrong(graph, node, "its delay is negative");
  if (node.comm_size < 0) return wrong(graph, node, "its size is negative");
  if (node.type == NodeType::kCollective) {
    const std::vector<int32_t>& group = node.comm_group;
    if (std::adjacent_find(group.begin(), group.end(), std::greater_equal<>()) != group.end()) {
      return wrong(graph, node, "the ranks of its group must ascend");
    }
    if (!std::binary_search(group.begin(), group.end(), graph.rank)) {
      return wrong(graph, node, "its group does not contain its own rank");
    }
    if (group.front() < 0 || group.back() >= static_cast<int32_t>(ranks)) {
      return wrong(graph, node, fmt::format("its group names ranks beyond 0 to {}", ranks - 1));
    }
  } else if (node.type == NodeType::kSend || node.type == NodeType::kReceive) {
    if (node.comm_peer < 0 || node.comm_peer >= static_cast<int32_t>(ranks)) {
      return wrong(graph, node, fmt::format("there is no rank {}", node.comm_peer));
    }
    if (node.comm_peer == graph.rank) return wrong(graph, node, "it sends to its own rank");
  }
  for (const int64_t id : node.details->carried_deps) {
    if (position(graph, id) >= 0) continue;
    return wrong(graph, node, fmt::format("it carries node {}, which does not exist", id));
  }
  const std::optional<int64_t>& beside = node.details->co_executed_with;
  if (beside &&
      std::find(node.ctrl_deps.begin(), node.ctrl_deps.end(), *beside) == node.ctrl_deps.end()) {
    return wrong(
        graph, node,
        fmt::format("it runs concurrently with node {} and does not depend on it", *beside));
  }
  for (const auto* dependencies : {&node.data_deps, &node.ctrl_deps}) {
    for (const int64_t id : *dependencies) {
      if (id == node.id) return wrong(graph, node, "it depends on itself");
      if (position(graph, id) < 0) {
        return wrong(graph, node, fmt::format("it depends on node {}, which does not exist", id));
      }
    }
  }
  return {};
}

// A collective's parts on all its ranks.
struct Parts {
  std::vector<size_t> indices;
  const Graph* graph = nullptr;  // of the first one found
  const Node* node = nullptr;
};
using CollectiveKey = std::pair<std::vector<int32_t>, int64_t>;  // group, tag

using Collectives = std::map<CollectiveKey, Parts>;

Result<Collectives> collect(const Graphs& graphs, const std::vector<size_t>& first) {
  Collectives collectives;
  for (const Graph& graph : graphs) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      if (node.type != NodeType::kCollective) continue;
      Parts& parts = collectives[{node.comm_group, node.comm_tag}];
      if (!parts.node) {
        parts.graph = &graph;
        parts.node = &node;
      } else if (!parts.indices.empty() && parts.indices.back() >= first[graph.rank]) {
        return wrong(graph, node, fmt::format("its group used tag {} before", node.comm_tag));
      } else if (node.comm_size != parts.node->comm_size || node.duration != parts.node->duration) {
        return wrong(graph, node,
                     fmt::format("its size or duration differ from rank {}'s", parts.graph->rank));
      }
      parts.indices.push_back(first[graph.rank] + i);
    }
  }
  for (const auto& [key, parts] : collectives) {
    if (parts.indices.size() == key.first.size()) continue;
    return wrong(*parts.graph, *parts.node,
                 fmt::format("only {} of the {} ranks of its group take part", parts.indices.size(),
                             key.first.size()));
  }
  return collectives;
}

// Edges of a directed graph as one list; each node's side by side once they are filed.
class Successors {
 public:
  explicit Successors(size_t nodes) : first_(nodes + 1) { edges_.reserve(2 * nodes); }
  void add(size_t from, size_t to) {
    edges_.emplace_back(from, to);
    ++first_[from + 1];
  }
  void file() {
    for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    std::vector<size_t> next = first_;
    filed_.resize(edges_.size());
    for (const auto& [from, to] : edges_) filed_[next[from]++] = to;
  }
  std::span<const size_t> of(size_t node) const {
    return std::span(filed_).subspan(first_[node], first_[node + 1] - first_[node]);
  }

 private:
  std::vector<std::pair<size_t, size_t>> edges_;
  std::vector<size_t> first_, filed_;
};

// Sorted by key. Unusable where two agree, naming the first that repeats another.
Result<std::vector<Part>> collect_sends(const Graphs& graphs, const std::vector<size_t>& first) {
  std::vector<Part> sends;
  for (const Graph& graph : graphs) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      if (node.type != NodeType::kSend) continue;
      sends.push_back({graph.rank, node.comm_peer, node.comm_tag, first[graph.rank] + i, &node});
    }
  }
  std::sort(sends.begin(), sends.end(), [](const Part& a, const Part& b) {
    return a.key() != b.key() ? a.key() < b.key() : a.index < b.index;
  });
  const Part* repeated = nullptr;
  for (size_t i = 1; i < sends.size(); ++i) {
    if (sends[i].key() != sends[i - 1].key()) continue;
    if (repeated == nullptr || sends[i].index < repeated->index) repeated = &sends[i];
  }
  if (repeated == nullptr) return sends;
  return wrong(
      graphs[repeated->source], *repeated->node,
      fmt::format("its tag {} to rank {} was already used", repeated->tag, repeated->destination));
}

// Global index of the first node of each rank, for one topological sort over all ranks; and behind
// the last, the number of nodes.
Result<std::vector<size_t>> number_nodes(const Graphs& graphs) {
  std::vector<size_t> first = {0};
  for (size_t r = 0; r < graphs.size(); ++r) {
    const Graph& graph = graphs[r];
    if (graph.rank != static_cast<int32_t>(r)) {
      return unusable(fmt::format("graph {} says that it is rank {}", r, graph.rank));
    }
    first.push_back(first.back() + graph.nodes.size());
    for (size_t i = 1; i < graph.nodes.size(); ++i) {
      if (graph.nodes[i].id <= graph.nodes[i - 1].id) {
        return wrong(graph, graph.nodes[i], "ids must ascend and be unique");
      }
    }
    for (const Node& node : graph.nodes) TRY(check_node(graph, node, graphs.size()));
  }
  return first;
}

// What waits for what, over all ranks: dependencies, messages, and collectives, which behind the
// nodes have one place each, where all parts meet: each part's successors wait for the meeting.
class Order {
 public:
  Order(const Graphs& graphs, const std::vector<size_t>& first, const Collectives& collectives)
      : graphs_(graphs),
        first_(first),
        meeting_(first.back()),
        successors_(first.back() + collectives.size()),
        waiting_for_(first.back() + collectives.size(), 0) {
    std::iota(meeting_.begin(), meeting_.end(), size_t{0});
    size_t place = first.back();
    for (const auto& [key, parts] : collectives) {
      for (const size_t part : parts.indices) {
        meeting_[part] = place;
        add(part, place);
      }
      ++place;
    }
    for (const Graph& graph : graphs) {
      for (size_t i = 0; i < graph.nodes.size(); ++i) {
        for (const auto* dependencies : {&graph.nodes[i].data_deps, &graph.nodes[i].ctrl_deps}) {
          for (const int64_t id : *dependencies) {
            add(meeting_[first[graph.rank] + position(graph, id)], first[graph.rank] + i);
          }
        }
      }
    }
  }

  // Each receive waits for its send. Unusable where one of the two has no other.
  Status join(std::vector<Part> sends) {
    for (const Graph& graph : graphs_) {
      for (size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& node = graph.nodes[i];
        if (node.type != NodeType::kReceive) continue;
        const Part wanted{node.comm_peer, graph.rank, node.comm_tag};
        const auto send = std::lower_bound(sends.begin(), sends.end(), wanted, by_key);
        if (send == sends.end() || send->key() != wanted.key() || send->matched) {
          return wrong(graph, node,
                       fmt::format("rank {} never sends tag {} (or it is received twice)",
                                   node.comm_peer, node.comm_tag));
        }
        if (send->node->comm_size != node.comm_size) {
          return wrong(graph, node,
                       fmt::format("it expects {} bytes, but {} are sent", node.comm_size,
                                   send->node->comm_size));
        }
        add(send->index, first_[graph.rank] + i);
        send->matched = true;
      }
    }
    for (const Part& send : sends) {
      if (send.matched) continue;
      return wrong(graphs_[send.source], *send.node,
                   fmt::format("rank {} never receives it", send.destination));
    }
    return {};
  }

  // Kahn's algorithm; what cannot be ordered lies on a cycle or behind one.
  Status sort() {
    successors_.file();
    std::vector<size_t> ready;
    for (size_t i = 0; i < waiting_for_.size(); ++i) {
      if (waiting_for_[i] == 0) ready.push_back(i);
    }
    while (!ready.empty()) {
      const size_t index = ready.back();
      ready.pop_back();
      for (const size_t next : successors_.of(index)) {
        if (--waiting_for_[next] == 0) ready.push_back(next);
      }
    }
    for (const Graph& graph : graphs_) {
      for (size_t i = 0; i < graph.nodes.size(); ++i) {
        if (waiting_for_[first_[graph.rank] + i] > 0) {
          return wrong(graph, graph.nodes[i], "it waits in a cycle of dependencies");
        }
      }
    }
    return {};
  }

 private:
  void add(size_t from, size_t to) {
    successors_.add(from, to);
    ++waiting_for_[to];
  }

  const Graphs& graphs_;
  const std::vector<size_t>& first_;
  std::vector<size_t> meeting_;  // of each node: itself, or where its collective meets
  Successors successors_;
  std::vector<int> waiting_for_;
};

}  // namespace

const NodeDetails& OptionalDetails::operator*() const {
  static const NodeDetails nothing;
  return details_ ? *details_ : nothing;
}

NodeDetails& OptionalDetails::edit() {
  if (!details_) details_ = std::make_unique<NodeDetails>();
  return *details_;
}

Status validate(const Graphs& graphs) {
  const std::vector<size_t> first = TRY(number_nodes(graphs));
  Order order(graphs, first, TRY(collect(graphs, first)));
  TRY(order.join(TRY(collect_sends(graphs, first))));
  return order.sort();
}

}  // namespace tombolo::graph
