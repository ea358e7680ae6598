#include "sim/interpret.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/check.h"
#include "engine/event_queue.h"
#include "engine/fluid.h"

namespace tombolo::sim {
namespace {

using graph::Node;
using graph::NodeType;

enum EventKind : uint32_t {
  kComputed,  // subject: the node
  kOccupied,  // a fixed occupancy is over; subject: the channel
  kFlows,     // some flow may have drained; subject: 0
  kArrived,   // subject: the sending node
  kReduced,   // a collective is over; subject: the collective
  kDelayed,   // the delay of a node is over; subject: the node
};

class Interpreter {
 public:
  Interpreter(const graph::Graphs& graphs, const Channels& channels)
      : graphs_(graphs), network_(channels.links) {
    for (const graph::Graph& graph : graphs) {
      first_.push_back(nodes_.size());
      for (const Node& node : graph.nodes) nodes_.push_back({&node, graph.rank});
    }
    ranks_.resize(graphs.size());
    for (const auto& [pair, law] : channels.laws) {
      channel_of_.emplace(pair, channels_.size());
      channels_.push_back({&law});
    }
    for (const SharedChannel& shared : channels.shared) share(shared);
    connect();
  }

  Execution run() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].waiting_for == 0) met(i);
    }
    start_computations();
    watch_flows();
    while (!queue_.empty()) {
      handle(queue_.pop());
      start_computations();
      watch_flows();
    }
    for (const State& state : nodes_) {
      CHECK(state.done, "rank {}, node {} (\"{}\") never finished", state.rank, state.node->id,
            state.node->name);
    }
    Execution out{{}, queue_.popped(), queue_.fingerprint()};
    for (size_t r = 0; r < graphs_.size(); ++r) {
      out.spans.emplace_back();
      for (size_t i = 0; i < graphs_[r].nodes.size(); ++i) {
        out.spans.back().push_back(nodes_[first_[r] + i].span);
      }
    }
    return out;
  }

 private:
  struct State {
    const Node* node;
    int32_t rank;
    int waiting_for = 0;
    bool handed_over = false;  // a send, to its channel
    bool done = false;
    Span span = {};
    std::vector<size_t> followers = {};  // who depends on it; of a send, its receive too
  };
  struct Rank {
    std::set<size_t> ready = {};  // computations that may start, lowest id first
    bool busy = false;
  };
  struct Collective {
    std::vector<size_t> parts = {};  // its nodes, by rank
    size_t ready = 0;                // how many of them
  };
  struct Channel {
    const ChannelLaw* law;
    std::vector<size_t> order = {};  // sends: as they are handed over, or all of a shared channel
    size_t next = 0;                 // in the order; under way if busy
    bool busy = false;
    bool shared = false;
  };

  void share(const SharedChannel& shared) {
    Channel channel{.law = &shared.law, .shared = true};
    for (const SharedChannel::Send& send : shared.order) {
      channel.order.push_back(find(send.rank, send.node));
      shared_of_.emplace(channel.order.back(), channels_.size());
    }
    channels_.push_back(std::move(channel));
  }

  // Dependencies and messages as edges. A receive waits for its send like for any other node.
  void connect() {
    std::map<std::tuple<int32_t, int32_t, int64_t>, size_t> sends;  // source, destination, tag
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = *nodes_[i].node;
      if (node.type == NodeType::kSend) {
        sends.emplace(std::tuple{nodes_[i].rank, node.comm_peer, node.comm_tag}, i);
      }
      for (const auto* dependencies : {&node.data_deps, &node.ctrl_deps}) {
        for (const int64_t id : *dependencies) add_edge(find(nodes_[i].rank, id), i);
      }
    }
    std::map<std::pair<std::vector<int32_t>, int64_t>, size_t> groups;  // with the tag
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = *nodes_[i].node;
      if (node.type == NodeType::kCollective) {
        const auto [entry, fresh] =
            groups.emplace(std::pair{node.comm_group, node.comm_tag}, collectives_.size());
        if (fresh) collectives_.emplace_back();
        collectives_[entry->second].parts.push_back(i);
        collective_of_.emplace(i, entry->second);
      }
      if (node.type != NodeType::kReceive) continue;
      add_edge(sends.at({node.comm_peer, nodes_[i].rank, node.comm_tag}), i);
    }
  }

  void add_edge(size_t from, size_t to) {
    nodes_[from].followers.push_back(to);
    ++nodes_[to].waiting_for;
  }

  size_t find(int32_t rank, int64_t id) const {
    const std::vector<Node>& nodes = graphs_[rank].nodes;
    const auto at = std::lower_bound(nodes.begin(), nodes.end(), id,
                                     [](const Node& node, int64_t want) { return node.id < want; });
    return first_[rank] + static_cast<size_t>(at - nodes.begin());
  }

  // Its dependencies are done.
  void met(size_t index) {
    const SimDuration delay = nodes_[index].node->delay;
    if (delay.ns == 0) return ready(index);
    queue_.push(queue_.now() + delay, kDelayed, index);
  }

  void ready(size_t index) {
    State& state = nodes_[index];
    switch (state.node->type) {
      case NodeType::kInvalid:
      case NodeType::kMetadata:
        state.span.start = queue_.now();
        finish(index);
        break;
      case NodeType::kMemoryLoad:
      case NodeType::kMemoryStore:
        CHECK(false, "node {} (\"{}\"): remote memory is not simulated with Plans", state.node->id,
              state.node->name);
      case NodeType::kCompute:
        ranks_[state.rank].ready.insert(index);
        woken_.push_back(state.rank);
        break;
      case NodeType::kSend: {
        const size_t number = channel_of(index);
        Channel& channel = channels_[number];
        if (!channel.shared) channel.order.push_back(index);
        state.handed_over = true;
        if (!channel.busy) start_message(number);
        break;
      }
      case NodeType::kReceive:
        state.span.start = queue_.now();
        finish(index);
        break;
      case NodeType::kCollective: {
        state.span.start = queue_.now();
        const size_t number = collective_of_.at(index);
        Collective& collective = collectives_[number];
        if (++collective.ready == collective.parts.size()) {
          queue_.push(queue_.now() + state.node->duration, kReduced, number);
        }
        break;
      }
    }
  }

  void finish(size_t index) {
    State& state = nodes_[index];
    state.done = true;
    state.span.end = queue_.now();
    for (const size_t next : state.followers) {
      if (--nodes_[next].waiting_for == 0) met(next);
    }
  }

  // After all that happens at one event, so that the choice does not hang on the order of edges.
  void start_computations() {
    for (const int32_t r : std::exchange(woken_, {})) {
      Rank& rank = ranks_[r];
      if (rank.busy || rank.ready.empty()) continue;
      const size_t index = *rank.ready.begin();
      rank.ready.erase(rank.ready.begin());
      rank.busy = true;
      nodes_[index].span.start = queue_.now();
      queue_.push(queue_.now() + nodes_[index].node->duration, kComputed, index);
    }
  }

  size_t channel_of(size_t send) const {
    const auto shared = shared_of_.find(send);
    if (shared != shared_of_.end()) return shared->second;
    const State& state = nodes_[send];
    const auto channel = channel_of_.find({state.rank, state.node->comm_peer});
    CHECK(channel != channel_of_.end(), "no channel from rank {} to rank {}", state.rank,
          state.node->comm_peer);
    return channel->second;
  }

  // The next one in the order, if it is there already.
  void start_message(size_t channel_index) {
    Channel& channel = channels_[channel_index];
    if (channel.next == channel.order.size()) return;
    State& message = nodes_[channel.order[channel.next]];
    if (!message.handed_over) return;
    channel.busy = true;
    message.span.start = queue_.now();
    if (channel.law->occupancy) {
      queue_.push(queue_.now() + *channel.law->occupancy, kOccupied, channel_index);
    } else {
      const Bytes bytes{static_cast<double>(message.node->comm_size)};
      flows_.emplace(network_.start(queue_.now(), bytes, channel.law->flow), channel_index);
    }
  }

  // The last byte of the channel's message has left.
  void end_message(size_t channel_index) {
    Channel& channel = channels_[channel_index];
    queue_.push(queue_.now() + channel.law->latency, kArrived, channel.order[channel.next]);
    ++channel.next;
    channel.busy = false;
    start_message(channel_index);
  }

  // Keeps one event at the next completion; one that has become too early finds nothing to do.
  void watch_flows() {
    const std::optional<SimTime> next = network_.next_completion();
    if (!next || (watched_ && *watched_ <= *next)) return;
    watched_ = *next;
    queue_.push(*next, kFlows, 0);
  }

  void handle(const engine::Event& event) {
    const size_t subject = event.subject;
    switch (event.kind) {
      case kComputed:
        ranks_[nodes_[subject].rank].busy = false;
        woken_.push_back(nodes_[subject].rank);
        finish(subject);
        break;
      case kOccupied:
        end_message(subject);
        break;
      case kArrived:
        finish(subject);
        break;
      case kReduced:
        for (const size_t part : collectives_[subject].parts) finish(part);
        break;
      case kDelayed:
        ready(subject);
        break;
      default:
        if (watched_ && *watched_ <= event.time) watched_.reset();
        for (const engine::Completion& completion : network_.finish(event.time)) {
          const auto flow = flows_.find(completion.flow);
          const size_t channel = flow->second;
          flows_.erase(flow);
          end_message(channel);
        }
    }
  }

  const graph::Graphs& graphs_;
  std::vector<size_t> first_;  // of each rank, in nodes_
  std::vector<State> nodes_;
  std::vector<Rank> ranks_;
  std::vector<int32_t> woken_;  // ranks that may have something to compute
  std::vector<Collective> collectives_;
  std::unordered_map<size_t, size_t> collective_of_;  // by node; looked up, never iterated
  std::map<std::pair<int32_t, int32_t>, size_t> channel_of_;
  std::unordered_map<size_t, size_t> shared_of_;  // by node; looked up, never iterated
  std::vector<Channel> channels_;
  std::unordered_map<engine::FlowId, size_t> flows_;  // looked up, never iterated
  std::optional<SimTime> watched_;
  engine::FluidNetwork network_;
  engine::EventQueue queue_;
};

}  // namespace

Execution interpret(const graph::Graphs& graphs, const Channels& channels) {
  const Status sound = graph::validate(graphs);
  CHECK(sound, "{}", sound.error().text());
  return Interpreter(graphs, channels).run();
}

graph::Graphs repeat(const graph::Graphs& graphs, int64_t times) {
  CHECK(times >= 1, "a graph {} times", times);
  int64_t tags = 0;
  for (const graph::Graph& graph : graphs) {
    for (const Node& node : graph.nodes) tags = std::max(tags, node.comm_tag + 1);
  }
  graph::Graphs out;
  for (const graph::Graph& graph : graphs) {
    out.push_back({graph.rank, {}});
    if (graph.nodes.empty()) continue;
    std::vector<Node>& nodes = out.back().nodes;
    const int64_t ids = graph.nodes.back().id + 1;
    std::set<int64_t> last;  // nodes that no other waits for, receives and sends aside
    for (const Node& node : graph.nodes) {
      if (node.type == NodeType::kCompute) last.insert(node.id);
    }
    for (const Node& node : graph.nodes) {
      if (node.type != NodeType::kCompute) continue;
      for (const auto* dependencies : {&node.data_deps, &node.ctrl_deps}) {
        for (const int64_t id : *dependencies) last.erase(id);
      }
    }
    for (int64_t i = 0; i < times; ++i) {
      for (const Node& node : graph.nodes) {
        Node copy = node;
        copy.id += i * ids;
        copy.comm_tag += i * tags;
        for (auto* dependencies : {&copy.data_deps, &copy.ctrl_deps}) {
          for (int64_t& id : *dependencies) id += i * ids;
        }
        const bool begins = node.type == NodeType::kCompute && node.ctrl_deps.empty();
        if (begins && i > 0) {
          for (const int64_t id : last) copy.ctrl_deps.push_back(id + (i - 1) * ids);
        }
        nodes.push_back(std::move(copy));
      }
    }
  }
  return out;
}

}  // namespace tombolo::sim
