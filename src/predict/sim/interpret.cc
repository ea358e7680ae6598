#include "predict/sim/interpret.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <span>
#include <tuple>

#include "base/check.h"
#include "base/interruption.h"
#include "predict/engine/event_queue.h"
#include "predict/engine/fluid.h"

namespace tombolo::sim {
namespace {

using graph::Node;
using graph::NodeType;

enum EventKind : uint32_t {
  kComputed,  // subject: the node
  kOccupied,  // a fixed occupancy is over; subject: the channel
  kFlows,     // some flow may have drained; subject: 0
  kArrived,   // subject: the sending node
  kReduced,   // a collective has lasted as long as it must; subject: the collective
  kDelayed,   // the delay of a node is over; subject: the node
  kRate,      // a link has another rate from now on; subject: which of the changing ones
};

class Interpreter {
 public:
  Interpreter(const graph::Graphs& graphs, const Channels& channels, Watcher* watcher)
      : graphs_(graphs),
        sums_(channels.sums),
        changing_(channels.changing),
        watcher_(watcher),
        network_(channels.links) {
    size_t all = 0;
    for (const graph::Graph& graph : graphs) all += graph.nodes.size();
    nodes_.reserve(all);
    for (const graph::Graph& graph : graphs) {
      first_.push_back(nodes_.size());
      for (const Node& node : graph.nodes) nodes_.push_back({&node, graph.rank});
    }
    CHECK(nodes_.size() < UINT32_MAX, "{} nodes", nodes_.size());
    ranks_.resize(graphs.size());
    for (const auto& [pair, law] : channels.laws) {
      if (static_cast<size_t>(pair.first) >= ranks_.size()) continue;
      ranks_[pair.first].channels.emplace_back(pair.second, channels_.size());
      channels_.push_back({&law});
    }
    for (const SharedChannel& shared : channels.shared) share(shared);
    connect();
    unfinished_ = nodes_.size();
  }

  Execution run() {
    for (size_t i = 0; i < changing_.size(); ++i) await_rate(i);
    std::vector<size_t> free;  // before any is met: what that sets free is met at once
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].waiting_for == 0) free.push_back(i);
    }
    for (const size_t each : free) met(each);
    start_computations();
    watch_flows();
    while (!queue_.empty()) {
      if (queue_.popped() % 4096 == 0) stop_if_interrupted();
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
      out.spans.emplace_back().reserve(graphs_[r].nodes.size());
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
    bool shared = false;    // a send over the shared channel `part_of`
    uint32_t part_of = 0;   // of a collective: which one
    uint32_t follower = 0;  // its first in followers_; the next node's come after its own
    Span span = {};
  };
  struct Rank {
    std::vector<size_t> ready = {};  // computations that may start: a heap, the lowest id on top
    std::vector<std::pair<int32_t, size_t>> channels = {};  // by receiver
    bool busy = false;
  };
  struct Edge {
    uint32_t from, to;
  };
  // What a message's sender and receiver agree on.
  struct Message {
    int32_t source, destination;
    int64_t tag;
    uint32_t node;
    bool operator<(const Message& other) const {
      return std::tie(source, destination, tag) <
             std::tie(other.source, other.destination, other.tag);
    }
  };
  struct Collective {
    std::vector<size_t> parts = {};  // its nodes, by rank
    size_t ready = 0;                // how many of them
    size_t unfinished = 0;           // flows under way, and the time that it lasts alone
  };
  struct Channel {
    const ChannelLaw* law;
    std::vector<size_t> order = {};  // sends: as they are handed over, or all of a shared channel
    size_t next = 0;                 // in the order; under way if busy
    bool busy = false;
    bool shared = false;
    std::vector<const engine::Flow*> flows = {};  // of the order's sends, where it is shared
  };

  void share(const SharedChannel& shared) {
    CHECK(shared.law.occupancy || !shared.flows.empty(), "a shared channel without a law");
    Channel channel{.law = &shared.law, .shared = true};
    for (const SharedChannel::Send& send : shared.order) {
      channel.order.push_back(find(send.rank, send.node));
      if (!shared.flows.empty()) channel.flows.push_back(&shared.flows[send.pipeline]);
      State& state = nodes_[channel.order.back()];
      state.shared = true;
      state.part_of = static_cast<uint32_t>(channels_.size());
    }
    channels_.push_back(std::move(channel));
  }

  // Dependencies and messages as edges. A receive waits for its send like for any other node.
  void connect() {
    std::vector<Edge> edges;
    edges.reserve(2 * nodes_.size());
    std::vector<Message> sends, receives;
    std::map<std::pair<std::vector<int32_t>, int64_t>, size_t> groups;  // with the tag
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = *nodes_[i].node;
      const int32_t rank = nodes_[i].rank;
      for (const auto* dependencies : {&node.data_deps, &node.ctrl_deps}) {
        for (const int64_t id : *dependencies) {
          edges.push_back({static_cast<uint32_t>(find(rank, id)), i});
        }
      }
      if (node.type == NodeType::kSend) sends.push_back({rank, node.comm_peer, node.comm_tag, i});
      if (node.type == NodeType::kReceive) {
        receives.push_back({node.comm_peer, rank, node.comm_tag, i});
      }
      if (node.type != NodeType::kCollective) continue;
      const auto [entry, fresh] =
          groups.emplace(std::pair{node.comm_group, node.comm_tag}, collectives_.size());
      if (fresh) collectives_.emplace_back();
      collectives_[entry->second].parts.push_back(i);
      nodes_[i].part_of = static_cast<uint32_t>(entry->second);
    }
    // Every receive has its one send (graph::validate), so that both lists run in step.
    std::sort(sends.begin(), sends.end());
    std::sort(receives.begin(), receives.end());
    CHECK(sends.size() == receives.size(), "{} sends, {} receives", sends.size(), receives.size());
    for (size_t m = 0; m < sends.size(); ++m) {
      const Message &send = sends[m], &receive = receives[m];
      CHECK(!(send < receive) && !(receive < send), "rank {} sends tag {}, rank {} receives tag {}",
            send.source, send.tag, receive.destination, receive.tag);
      edges.push_back({send.node, receive.node});
    }
    for (const auto& [group, number] : groups) {
      CHECK(collectives_[number].parts.size() == group.first.size(), "{} ranks of {} take part",
            collectives_[number].parts.size(), group.first.size());
    }
    file(edges);
  }

  // Each node's followers side by side, in the order of the edges.
  void file(const std::vector<Edge>& edges) {
    std::vector<uint32_t> next(nodes_.size() + 1);
    for (const Edge& edge : edges) ++next[edge.from + 1];
    for (size_t i = 0; i < nodes_.size(); ++i) {
      next[i + 1] += next[i];
      nodes_[i].follower = next[i];
    }
    followers_.resize(edges.size());
    for (const Edge& edge : edges) {
      followers_[next[edge.from]++] = edge.to;
      ++nodes_[edge.to].waiting_for;
    }
  }

  // Those of a node and of the one behind it stand side by side.
  std::span<const uint32_t> followers(size_t index) const {
    const size_t first = nodes_[index].follower;
    const size_t last = index + 1 < nodes_.size() ? nodes_[index + 1].follower : followers_.size();
    return std::span(followers_).subspan(first, last - first);
  }

  size_t find(int32_t rank, int64_t id) const {
    const std::vector<Node>& nodes = graphs_[rank].nodes;
    const auto guess = static_cast<size_t>(id);  // most count from 0 without a gap
    if (guess < nodes.size() && nodes[guess].id == id) return first_[rank] + guess;
    const auto at = std::lower_bound(nodes.begin(), nodes.end(), id,
                                     [](const Node& node, int64_t want) { return node.id < want; });
    CHECK(at != nodes.end() && at->id == id, "rank {} has no node {}", rank, id);
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
        push_heap(ranks_[state.rank].ready, index);
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
        const size_t number = state.part_of;
        Collective& collective = collectives_[number];
        if (++collective.ready == collective.parts.size()) start_collective(number);
        break;
      }
    }
  }

  void finish(size_t index) {
    State& state = nodes_[index];
    state.done = true;
    state.span.end = queue_.now();
    --unfinished_;
    if (watcher_) {
      const auto rank = static_cast<size_t>(state.rank);
      watcher_->finished(graphs_[rank], index - first_[rank], state.span);
    }
    for (const uint32_t next : followers(index)) {
      if (--nodes_[next].waiting_for == 0) met(next);
    }
  }

  // After all that happens at one event, so that the choice does not hang on the order of edges.
  void start_computations() {
    for (const int32_t r : woken_) {
      Rank& rank = ranks_[r];
      if (rank.busy || rank.ready.empty()) continue;
      const size_t index = pop_heap(rank.ready);
      rank.busy = true;
      nodes_[index].span.start = queue_.now();
      queue_.push(queue_.now() + nodes_[index].node->duration, kComputed, index);
    }
    woken_.clear();
  }

  static void push_heap(std::vector<size_t>& heap, size_t value) {
    heap.push_back(value);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  static size_t pop_heap(std::vector<size_t>& heap) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const size_t value = heap.back();
    heap.pop_back();
    return value;
  }

  size_t channel_of(size_t send) const {
    const State& state = nodes_[send];
    if (state.shared) return state.part_of;
    for (const auto& [receiver, channel] : ranks_[state.rank].channels) {
      if (receiver == state.node->comm_peer) return channel;
    }
    CHECK(false, "no channel from rank {} to rank {}", state.rank, state.node->comm_peer);
  }

  // The next one in the order, if it is there already.
  void start_message(size_t channel_index) {
    Channel& channel = channels_[channel_index];
    if (channel.next == channel.order.size()) return;
    if (!channel.shared) most_urgent_first(channel);
    State& message = nodes_[channel.order[channel.next]];
    if (!message.handed_over) return;
    channel.busy = true;
    message.span.start = queue_.now();
    if (channel.law->occupancy) {
      queue_.push(queue_.now() + occupancy_of(*channel.law, message.node->comm_size), kOccupied,
                  channel_index);
    } else {
      const Bytes bytes{static_cast<double>(message.node->comm_size)};
      const engine::Flow& law = channel.shared ? *channel.flows[channel.next] : channel.law->flow;
      const engine::FlowId flow = network_.start(queue_.now(), bytes, law);
      owns(flow, {.of_collective = false, .index = static_cast<uint32_t>(channel_index)});
    }
  }

  static SimDuration occupancy_of(const ChannelLaw& law, int64_t bytes) {
    if (law.unit == 0 || bytes == law.unit) return *law.occupancy;
    return SimDuration{std::llround(real(law.occupancy->ns) * (real(bytes) / real(law.unit)))};
  }

  // Of those that wait on a channel, the first of the lowest comm_priority; the others stay in their
  // order.
  void most_urgent_first(Channel& channel) const {
    const auto waiting = channel.order.begin() + static_cast<ptrdiff_t>(channel.next);
    const auto priority = [&](size_t send) { return nodes_[send].node->comm_priority; };
    if (priority(*waiting) == 0) return;
    const auto first = std::min_element(waiting, channel.order.end(), [&](size_t a, size_t b) {
      return priority(a) < priority(b);
    });
    std::rotate(waiting, first, first + 1);
  }

  // It lasts as long as its law says, or longer where what else passes the ranks' ports leaves it
  // less.
  void start_collective(size_t number) {
    Collective& collective = collectives_[number];
    const SimDuration alone = nodes_[collective.parts.back()].node->duration;
    queue_.push(queue_.now() + alone, kReduced, number);
    collective.unfinished = 1;
    if (sums_.empty() || alone.ns == 0) return;
    for (const size_t part : collective.parts) {
      const State& state = nodes_[part];
      const auto law = sums_.find(state.rank);
      const Bytes bytes{static_cast<double>(state.node->comm_size)};
      if (law == sums_.end() || bytes.value == 0) continue;
      engine::Flow flow = law->second;
      // A little faster than it needs: undisturbed, it is over first.
      flow.cap = bytes / seconds(alone) * (1 + 1e-9);
      owns(network_.start(queue_.now(), bytes, std::move(flow)),
           {.of_collective = true, .index = static_cast<uint32_t>(number)});
      ++collective.unfinished;
    }
  }

  void finish_part_of_collective(size_t number) {
    Collective& collective = collectives_[number];
    if (--collective.unfinished > 0) return;
    for (const size_t part : collective.parts) finish(part);
  }

  // Flows count from 0.
  struct Owner {
    bool of_collective = false;
    uint32_t index = 0;  // of the channel or the collective
  };
  void owns(engine::FlowId flow, Owner owner) {
    CHECK(flow == owner_of_flow_.size(), "flow {} after {}", flow, owner_of_flow_.size());
    owner_of_flow_.push_back(owner);
  }

  // The last byte of the channel's message has left.
  void end_message(size_t channel_index) {
    Channel& channel = channels_[channel_index];
    queue_.push(queue_.now() + channel.law->latency, kArrived, channel.order[channel.next]);
    ++channel.next;
    channel.busy = false;
    start_message(channel_index);
  }

  // While there is something left to do, an event at the link's next step.
  void await_rate(size_t number) {
    const SimTime now = queue_.now();
    const auto next = changing_[number].rates->next_change(now - SimTime{});
    if (next) queue_.push(SimTime{} + *next, kRate, number);
  }

  void change_rate(size_t number) {
    const ChangingLink& link = changing_[number];
    network_.set_capacity(queue_.now(), link.link, link.rates->rate_at(queue_.now() - SimTime{}));
    if (unfinished_ > 0) await_rate(number);
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
        finish_part_of_collective(subject);
        break;
      case kDelayed:
        ready(subject);
        break;
      case kRate:
        change_rate(subject);
        break;
      default:
        if (watched_ && *watched_ <= event.time) watched_.reset();
        for (const engine::Completion& completion : network_.finish(event.time)) {
          const Owner owner = owner_of_flow_[completion.flow];
          owner.of_collective ? finish_part_of_collective(owner.index) : end_message(owner.index);
        }
    }
  }

  const graph::Graphs& graphs_;
  const std::map<int32_t, engine::Flow>& sums_;
  const std::vector<ChangingLink>& changing_;
  Watcher* watcher_;           // null: none
  size_t unfinished_ = 0;      // nodes
  std::vector<size_t> first_;  // of each rank, in nodes_
  std::vector<State> nodes_;
  std::vector<uint32_t> followers_;  // who depends on a node; of a send, its receive too
  std::vector<Rank> ranks_;
  std::vector<int32_t> woken_;  // ranks that may have something to compute
  std::vector<Collective> collectives_;
  std::vector<Channel> channels_;
  std::vector<Owner> owner_of_flow_;
  std::optional<SimTime> watched_;
  engine::FluidNetwork network_;
  engine::EventQueue queue_;
};

}  // namespace

Execution interpret(const graph::Graphs& graphs, const Channels& channels) {
  const Status sound = graph::validate(graphs);
  CHECK(sound, "{}", sound.error().text());
  return interpret_sound(graphs, channels);
}

Execution interpret_sound(const graph::Graphs& graphs, const Channels& channels) {
  return Interpreter(graphs, channels, nullptr).run();
}

Execution interpret_sound(const graph::Graphs& graphs, const Channels& channels, Watcher& watcher) {
  return Interpreter(graphs, channels, &watcher).run();
}

namespace {

// By node, what it waits for in the iteration before: what it carries, or, where no node of the graph
// carries anything, a node that begins its rank waits for those that end it.
std::vector<std::vector<int64_t>> waits_across(const graph::Graph& graph) {
  std::vector<std::vector<int64_t>> waits;
  waits.reserve(graph.nodes.size());
  bool carries = false;
  for (const Node& node : graph.nodes) {
    waits.push_back(node.details->carried_deps);
    carries = carries || !waits.back().empty();
  }
  if (carries) return waits;
  std::vector<int64_t> waited_for;  // by computations
  for (const Node& node : graph.nodes) {
    if (node.type != NodeType::kCompute) continue;
    for (const auto* dependencies : {&node.data_deps, &node.ctrl_deps}) {
      waited_for.insert(waited_for.end(), dependencies->begin(), dependencies->end());
    }
  }
  std::sort(waited_for.begin(), waited_for.end());
  std::vector<int64_t> last;  // computations that no other waits for
  for (const Node& node : graph.nodes) {
    if (node.type != NodeType::kCompute) continue;
    if (!std::binary_search(waited_for.begin(), waited_for.end(), node.id)) last.push_back(node.id);
  }
  for (size_t n = 0; n < waits.size(); ++n) {
    const Node& node = graph.nodes[n];
    const bool computes = node.type == NodeType::kCompute || node.type == NodeType::kCollective;
    if (computes && node.ctrl_deps.empty()) waits[n] = last;
  }
  return waits;
}

// The same nodes in the iteration before, where that is one of another graph: of a pass, whose microbatch may have
// no counterpart there, the last pass of its kind and stage. All else is there as often, in the same order.
std::vector<std::vector<int64_t>> in_the_part_before(
    const graph::Graph& graph, const graph::Graph& before,
    const std::vector<std::vector<int64_t>>& waits) {
  using Key = std::tuple<std::string, NodeType, int32_t, int64_t>;
  const auto keys_of = [](const graph::Graph& of) {
    std::map<std::pair<std::string, NodeType>, int64_t> seen;
    std::map<int64_t, Key> keys;  // by id
    for (const Node& node : of.nodes) {
      const bool is_pass = node.action && node.action->microbatch >= 0;
      if (is_pass) {
        const std::string kind = fmt::format("{}", static_cast<int>(node.action->kind));
        keys[node.id] = {kind, node.type, node.action->stage, -1};
      } else {
        keys[node.id] = {node.name, node.type, -1, seen[{node.name, node.type}]++};
      }
    }
    return keys;
  };
  std::map<Key, int64_t> known;
  for (const auto& [id, key] : keys_of(before)) known[key] = id;
  const auto keys = keys_of(graph);
  std::vector<std::vector<int64_t>> out(waits.size());
  for (size_t n = 0; n < waits.size(); ++n) {
    for (const int64_t id : waits[n]) {
      const auto found = known.find(keys.at(id));
      CHECK(found != known.end(), "node {} waits for {}, which the iteration before has not",
            graph.nodes[n].id, id);
      out[n].push_back(found->second);
    }
  }
  return out;
}

// What repeated nodes keep of their details.
void forget_carried(Node& node) {
  const std::optional<int64_t> beside = node.details->co_executed_with;
  node.details = {};
  if (beside) node.details.edit().co_executed_with = beside;
}

}  // namespace

graph::Graphs repeat(graph::Graphs graphs, int64_t times, const LeavesOut& leaves_out) {
  std::vector<Repeated> parts;
  parts.push_back({std::move(graphs), times});
  return repeat(std::move(parts), leaves_out);
}

graph::Graphs repeat(std::vector<Repeated> parts, const LeavesOut& leaves_out) {
  CHECK(!parts.empty(), "nothing to repeat");
  int64_t tags = 0, all = 0;
  uint32_t priorities = 0;  // 0 is no priority; above it, earlier iterations go first
  for (const Repeated& part : parts) {
    CHECK(part.times >= 1 && part.graphs.size() == parts.front().graphs.size(),
          "{} graphs, {} times", part.graphs.size(), part.times);
    all += part.times;
    for (const graph::Graph& graph : part.graphs) {
      for (const Node& node : graph.nodes) {
        tags = std::max(tags, node.comm_tag + 1);
        priorities = std::max(priorities, node.comm_priority);
      }
    }
  }
  CHECK(all <= INT32_MAX, "a graph {} times", all);
  graph::Graphs out;
  for (size_t g = 0; g < parts.front().graphs.size(); ++g) {
    graph::Graph& whole = out.emplace_back(parts.front().graphs[g]);
    whole.nodes.clear();
    size_t nodes = 0;
    for (const Repeated& part : parts)
      nodes += part.graphs[g].nodes.size() * static_cast<size_t>(part.times);
    whole.nodes.reserve(nodes);
    int64_t iterations = 0, first_id = 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      graph::Graph& graph = parts[p].graphs[g];
      if (graph.nodes.empty()) continue;
      const int64_t ids = graph.nodes.back().id + 1;
      auto waits = all > 1 ? waits_across(graph) : std::vector<std::vector<int64_t>>{};
      std::vector<std::vector<int64_t>> across;  // of its first iteration, on the part before
      int64_t before = 0;                        // of that part's last iteration, the first id
      if (p > 0) {
        const graph::Graph& last = parts[p - 1].graphs[g];
        before = first_id - (last.nodes.back().id + 1);
        across = in_the_part_before(graph, last, waits);
      }
      for (Node& node : graph.nodes) forget_carried(node);
      for (int64_t i = 0; i < parts[p].times; ++i, ++iterations, first_id += ids) {
        stop_if_interrupted();
        const bool is_first = i == 0;
        for (size_t n = 0; n < graph.nodes.size(); ++n) {
          Node& node = whole.nodes.emplace_back(graph.nodes[n]);
          node.iteration = static_cast<int32_t>(iterations + 1);
          if (leaves_out && leaves_out(node, iterations + 1)) {
            node.type = NodeType::kInvalid;
            node.comm_size = 0;
          }
          node.id += first_id;
          node.comm_tag += iterations * tags;
          if (node.comm_priority > 0)
            node.comm_priority += static_cast<uint32_t>(iterations) * priorities;
          for (auto* dependencies : {&node.data_deps, &node.ctrl_deps}) {
            for (int64_t& id : *dependencies) id += first_id;
          }
          if (node.details->co_executed_with) *node.details.edit().co_executed_with += first_id;
          if (iterations == 0) continue;
          for (const int64_t id : is_first ? across[n] : waits[n])
            node.ctrl_deps.push_back(id + (is_first ? before : first_id - ids));
        }
      }
    }
    for (Repeated& part : parts) part.graphs[g].nodes = {};
  }
  return out;
}

}  // namespace tombolo::sim
