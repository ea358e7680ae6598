#include "predict/sim/channels.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "base/check.h"

namespace tombolo::sim {
namespace {

// Gives equal names equal links; the first use creates them.
class Links {
 public:
  explicit Links(std::vector<engine::Link>& links) : links_(links) {}

  uint32_t path(const std::string& from, const std::string& to, BytesPerSecond capacity) {
    return find({from, -1, to, -1}, capacity);
  }
  uint32_t node_pair(const plan::Placement& from, const plan::Placement& to,
                     BytesPerSecond capacity) {
    return find({from.datacenter, from.node, to.datacenter, to.node}, capacity);
  }

 private:
  using Key = std::tuple<std::string, int64_t, std::string, int64_t>;

  uint32_t find(const Key& key, BytesPerSecond capacity) {
    const auto [entry, fresh] = numbers_.emplace(key, static_cast<uint32_t>(links_.size()));
    if (fresh) links_.push_back({capacity});
    return entry->second;
  }

  std::vector<engine::Link>& links_;
  std::map<Key, uint32_t> numbers_;
};

// Without the links that it crosses.
ChannelLaw law_of(const plan::Channel& channel) {
  ChannelLaw law;
  law.latency = round_to_ns(channel.latency);
  if (channel.occupancy) {
    law.occupancy = round_to_ns(*channel.occupancy);
  } else {
    law.flow.cap = channel.rate;
  }
  return law;
}

ChannelLaw law_between(const plan::Plan& plan, int32_t from, int32_t to, Links& links) {
  const plan::Channel channel = plan::expected_channel(plan, from, to);
  ChannelLaw law = law_of(channel);
  if (law.occupancy || !channel.wan) return law;
  const plan::Placement& source = plan.ranks[from];
  const plan::Placement& target = plan.ranks[to];
  const cluster::WanLink& wan = *plan.cluster.link(source.datacenter, target.datacenter);
  // Not below what was measured: where the file says less than there is, the measurement counts.
  law.flow.links.push_back(
      links.node_pair(source, target, std::max(wan.node_pair_limit, channel.rate)));
  if (wan.path_limit) {
    law.flow.links.push_back(
        links.path(source.datacenter, target.datacenter, std::max(*wan.path_limit, channel.rate)));
  }
  return law;
}

// Of the cell that these two ranks belong to. The nodes of a cell are its own, so that only the
// path is left to meet others on.
ChannelLaw shared_law(const plan::Plan& plan, int32_t from, int32_t to, Links& links) {
  const plan::Channel channel = plan::shared_channel(plan, from, to);
  ChannelLaw law = law_of(channel);
  if (law.occupancy) return law;
  const std::string& source = plan.ranks[from].datacenter;
  const std::string& target = plan.ranks[to].datacenter;
  if (const auto& limit = plan.cluster.link(source, target)->path_limit) {
    law.flow.links.push_back(links.path(source, target, std::max(*limit, channel.rate)));
  }
  return law;
}

void add_shared(const plan::Plan& plan, const schedule::Shape& shape, int32_t boundary,
                Links& links, std::vector<SharedChannel>& shared) {
  for (const bool gradients : {false, true}) {
    for (int32_t replica = 0; replica < shape.replicas; replica += shape.cell) {
      const int32_t here = shape.rank_of(boundary, replica);
      const int32_t next = shape.rank_of(boundary + 1, replica);
      shared.push_back(
          {shared_law(plan, gradients ? next : here, gradients ? here : next, links), {}});
    }
  }
}

// The ids of each send over a shared boundary, one per iteration. Nodes are named by their actions.
using Sends = std::map<std::pair<int32_t, action::Action>, std::vector<int64_t>>;

Sends shared_sends(const schedule::Shape& shape, const graph::Graphs& graphs) {
  Sends sends;
  for (const graph::Graph& graph : graphs) {
    for (const graph::Node& node : graph.nodes) {
      if (node.type != graph::NodeType::kSend) continue;
      const Result<action::Action> action = action::parse_action(node.name);
      CHECK(action, "node {} of a schedule has no action: \"{}\"", node.id, node.name);
      const bool gradient = action->kind == action::ActionKind::kSendGradient;
      if (!shape.shares(action->stage - (gradient ? 1 : 0))) continue;
      sends[{graph.rank, *action}].push_back(node.id);
    }
  }
  return sends;
}

}  // namespace

Channels channels_of(const plan::Plan& plan) {
  const schedule::Shape shape = schedule::shape_of(plan);
  Channels channels;
  Links links(channels.links);
  for (int32_t stage = 0; stage + 1 < static_cast<int32_t>(plan.stages.size()); ++stage) {
    if (shape.shares(stage)) {
      add_shared(plan, shape, stage, links, channels.shared);
      continue;
    }
    for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
      const int32_t rank = plan.rank_of(stage, replica);
      const int32_t next = plan.rank_of(stage + 1, replica);
      if (rank == next) continue;
      for (const auto& [from, to] : {std::pair{rank, next}, std::pair{next, rank}}) {
        if (channels.laws.contains({from, to})) continue;
        channels.laws.emplace(std::pair{from, to}, law_between(plan, from, to, links));
      }
    }
  }
  return channels;
}

Channels channels_of(const plan::Plan& plan, const schedule::Schedule& schedule,
                     const graph::Graphs& graphs) {
  Channels channels = channels_of(plan);
  if (channels.shared.empty()) return channels;
  CHECK(channels.shared.size() == schedule.links.size(), "{} shared links, {} orders",
        channels.shared.size(), schedule.links.size());
  const schedule::Shape shape = schedule::shape_of(plan);
  const Sends sends = shared_sends(shape, graphs);
  const size_t iterations = sends.begin()->second.size();
  for (size_t i = 0; i < iterations; ++i) {
    for (size_t l = 0; l < schedule.links.size(); ++l) {
      const schedule::LinkOrder& link = schedule.links[l];
      const int32_t stage = link.boundary + (link.gradients ? 1 : 0);
      const auto kind =
          link.gradients ? action::ActionKind::kSendGradient : action::ActionKind::kSendActivation;
      for (const schedule::Transfer& transfer : link.transfers) {
        const int32_t rank = shape.rank_of(stage, transfer.replica);
        const std::vector<int64_t>& ids =
            sends.at({rank, action::Action{kind, stage, transfer.microbatch}});
        channels.shared[l].order.push_back({rank, ids[i]});
      }
    }
  }
  return channels;
}

}  // namespace tombolo::sim
