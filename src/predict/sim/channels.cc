#include "predict/sim/channels.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "spec/plan/resources.h"
#include "spec/schedule/exchange_graph.h"
#include "spec/schedule/local_steps.h"

namespace tombolo::sim {
namespace {

// Without the links that it crosses.
ChannelLaw law_of(const plan::Channel& channel) {
  ChannelLaw law;
  law.latency = round_to_ns(channel.latency);
  if (channel.occupancy) {
    law.occupancy = round_to_ns(*channel.occupancy);
    law.unit = std::llround(channel.unit.value);
  } else {
    law.flow.cap = channel.rate;
  }
  return law;
}

// The links of the fluid network are the Plan's resources, number by number.
void cross(const plan::Route& route, engine::Flow& flow) {
  bool whole = true;
  for (const plan::Use& use : route) {
    flow.links.push_back(use.resource);
    flow.shares.push_back(use.share);
    whole = whole && use.share == 1;
  }
  if (whole) flow.shares.clear();
}

ChannelLaw law_between(const plan::Plan& plan, int32_t from, int32_t to,
                       plan::Resources& resources) {
  ChannelLaw law = law_of(plan::expected_channel(plan, from, to));
  cross(resources.message(from, to), law.flow);
  return law;
}

// Of each pipeline that shares this link.
SharedChannel shared_channel(const plan::Plan& plan, const schedule::PipelineShape& shape,
                             const schedule::LinkOrder& link, plan::Resources& resources) {
  SharedChannel shared;
  const std::vector<int32_t> sharers = schedule::sharers_of(link, shape);
  for (const int32_t pipeline : sharers) {
    const int32_t here = shape.rank_of(link.boundary, pipeline);
    const int32_t next = shape.rank_of(link.boundary + 1, pipeline);
    const int32_t from = link.gradients ? next : here, to = link.gradients ? here : next;
    if (pipeline == sharers.front()) shared.law = law_of(plan::shared_channel(plan, from, to));
    engine::Flow flow = shared.law.flow;
    cross(resources.shared_message(from, to), flow);
    // As many flows as there are pipelines that carry it, and so heavy.
    flow.weight = static_cast<double>(sharers.size());
    shared.flows.push_back(std::move(flow));
  }
  return shared;
}

// The ids of each send over a shared boundary, one per iteration.
using Sends = std::map<std::pair<int32_t, action::Action>, std::vector<int64_t>>;

Sends shared_sends(const schedule::PipelineShape& shape, const graph::Graphs& graphs) {
  Sends sends;
  for (const graph::Graph& graph : graphs) {
    for (const graph::Node& node : graph.nodes) {
      if (node.type != graph::NodeType::kSend) continue;
      const std::optional<action::Action>& action = node.action;
      CHECK(action, "node {} of a schedule has no action: \"{}\"", node.id, node.name);
      const bool gradient = action->kind == action::ActionKind::kSendGradient;
      if (!action::is_send(action->kind)) continue;
      if (!shape.shares(action->stage - (gradient ? 1 : 0), graph.rank % shape.replicas)) continue;
      sends[{graph.rank, *action}].push_back(node.id);
    }
  }
  return sends;
}

// Between the replicas of a stage that send one another gradients: the messages of every group, for who sends to
// whom depends on its size where it does not divide.
void add_exchange(const plan::Plan& plan, int32_t stage, plan::Resources& resources,
                  Channels& channels) {
  const std::vector<int32_t> ranks = plan.replicas_of(stage);
  for (const auto& group : schedule::detail::exchange_of(plan, stage, 0).groups) {
    for (const schedule::GradientExchange* exchange : {&group.exchange, &group.outer}) {
      for (const auto& round : exchange->rounds) {
        for (const schedule::ExchangeMessage& message : round) {
          const std::pair pair{ranks[static_cast<size_t>(message.from)],
                               ranks[static_cast<size_t>(message.to)]};
          if (channels.laws.contains(pair)) continue;
          channels.laws.emplace(pair, law_between(plan, pair.first, pair.second, resources));
        }
      }
    }
  }
}

}  // namespace

Channels channels_of(const plan::Plan& plan) {
  const schedule::PipelineShape shape = schedule::shape_of(plan);
  Channels channels;
  plan::Resources resources(plan);
  const std::vector<schedule::LinkOrder> links = schedule::links_of(shape);
  auto link = links.begin();
  for (int32_t stage = 0; stage + 1 < static_cast<int32_t>(plan.stages.size()); ++stage) {
    for (; link != links.end() && link->boundary == stage; ++link) {
      channels.shared.push_back(shared_channel(plan, shape, *link, resources));
    }
    for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
      if (shape.shares(stage, replica)) continue;
      const int32_t rank = plan.rank_of(stage, replica);
      const int32_t next = plan.rank_of(stage + 1, replica);
      if (rank == next) continue;
      for (const auto& [from, to] : {std::pair{rank, next}, std::pair{next, rank}}) {
        if (channels.laws.contains({from, to})) continue;
        channels.laws.emplace(std::pair{from, to}, law_between(plan, from, to, resources));
      }
    }
  }
  for (int32_t stage = 0; stage < static_cast<int32_t>(plan.stages.size()); ++stage) {
    if (plan.exchanges_gradients(stage)) add_exchange(plan, stage, resources, channels);
  }
  for (const layout::Placement& rank : plan.ranks) {
    const std::optional<int32_t> other = plan.other_end(rank.rank);
    if (!other || channels.laws.contains({rank.rank, *other})) continue;
    channels.laws.emplace(std::pair{rank.rank, *other},
                          law_between(plan, rank.rank, *other, resources));
  }
  for (const layout::Placement& rank : plan.ranks) {
    engine::Flow flow;
    cross(resources.sum_of_gradients(rank.rank), flow);
    if (!flow.links.empty()) channels.sums.emplace(rank.rank, std::move(flow));
  }
  for (const plan::Resource& resource : resources.all()) {
    channels.links.push_back({resource.capacity});
    channels.wan_of.push_back(resource.wan);
  }
  return channels;
}

Channels channels_of(const plan::Plan& plan, const schedule::Schedule& schedule,
                     const graph::Graphs& graphs) {
  Channels channels = channels_of(plan);
  if (channels.shared.empty()) return channels;
  CHECK(channels.shared.size() == schedule.links.size(), "{} shared links, {} orders",
        channels.shared.size(), schedule.links.size());
  const schedule::PipelineShape shape = schedule::shape_of(plan);
  const Sends sends = shared_sends(shape, graphs);
  const size_t iterations = sends.begin()->second.size();
  for (size_t i = 0; i < iterations; ++i) {
    for (size_t l = 0; l < schedule.links.size(); ++l) {
      const schedule::LinkOrder& link = schedule.links[l];
      const int32_t stage = link.boundary + (link.gradients ? 1 : 0);
      const auto kind =
          link.gradients ? action::ActionKind::kSendGradient : action::ActionKind::kSendActivation;
      const std::vector<int32_t> sharers = schedule::sharers_of(link, shape);
      for (const schedule::Transfer& transfer : link.transfers) {
        const int32_t rank = shape.rank_of(stage, transfer.replica);
        const std::vector<int64_t>& ids =
            sends.at({rank, action::Action{kind, stage, transfer.microbatch}});
        const auto at = std::lower_bound(sharers.begin(), sharers.end(), transfer.replica);
        channels.shared[l].order.push_back(
            {rank, ids[i], static_cast<size_t>(at - sharers.begin())});
      }
    }
  }
  return channels;
}

plan::Plan with_highest_rates(plan::Plan plan, std::span<const cluster::RateTrace> rates) {
  for (size_t i = 0; i < rates.size(); ++i) {
    if (!rates[i].empty()) plan.cluster.wan[i].node_pair_limit = rates[i].highest();
  }
  return plan;
}

void set_rates(std::span<const cluster::RateTrace> rates, Channels& channels) {
  for (uint32_t link = 0; link < channels.links.size(); ++link) {
    const std::optional<size_t> wan = channels.wan_of[link];
    if (!wan || *wan >= rates.size() || rates[*wan].empty()) continue;
    channels.links[link].capacity = rates[*wan].rate_at({});
    channels.changing.push_back({link, &rates[*wan]});
  }
}

}  // namespace tombolo::sim
