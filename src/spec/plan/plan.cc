#include "spec/plan/plan.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace tombolo::plan {

const cluster::Datacenter& Plan::datacenter_of(int32_t rank) const {
  CHECK(rank >= 0 && rank < static_cast<int32_t>(ranks.size()), "there is no rank {}", rank);
  const cluster::Datacenter* datacenter = cluster.find(ranks[rank].datacenter);
  CHECK(datacenter, "rank {} sits in an unknown datacenter", rank);
  return *datacenter;
}

std::vector<int32_t> Plan::replicas_of(int32_t stage) const {
  std::vector<int32_t> members;
  for (int32_t replica = 0; replica < replicas(); ++replica) {
    members.push_back(rank_of(stage, replica));
  }
  return members;
}

Status validate(const Plan& plan) {
  const int64_t chunks = plan.parallelism.virtual_stages;
  if (chunks != 1 && layout_of(plan.parallelism.schedule) == Layout::kLine) {
    return unusable(fmt::format("virtual_stages = {}: schedule = \"{}\" has one stage per rank",
                                chunks, plan.parallelism.schedule));
  }
  if (plan.stages.size() != static_cast<size_t>(plan.parallelism.pipeline * chunks)) {
    return unusable(
        fmt::format("{} stages for pipeline = {}{}", plan.stages.size(), plan.parallelism.pipeline,
                    chunks == 1 ? "" : fmt::format(" and virtual_stages = {}", chunks)));
  }
  if (plan.ranks.size() != static_cast<size_t>(plan.parallelism.pipeline * plan.parallelism.data)) {
    return unusable(fmt::format("{} ranks for pipeline = {} and data = {}", plan.ranks.size(),
                                plan.parallelism.pipeline, plan.parallelism.data));
  }
  if (plan.microbatches() < 1 ||
      plan.microbatches() * plan.training.micro_batch * plan.parallelism.data !=
          plan.training.global_batch) {
    return unusable("global_batch is not a multiple of micro_batch x data");
  }
  if (plan.model.kv_heads < 1 || plan.model.ffn < 1) {
    return unusable("the model of a Plan must be resolved: kv_heads and ffn are missing");
  }
  int64_t next_layer = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const model::Slice& slice = plan.stages[s].slice;
    if (slice.first_layer != next_layer || slice.embedding != (s == 0) ||
        slice.head != (s + 1 == plan.stages.size())) {
      return unusable(fmt::format("stage {} does not continue where stage {} ends", s,
                                  static_cast<int64_t>(s) - 1));
    }
    if (slice.layers > plan.model.layers - next_layer) {
      return unusable(
          fmt::format("the stages hold more than the model's {} layers", plan.model.layers));
    }
    next_layer += slice.layers;
  }
  if (next_layer != plan.model.layers) {
    return unusable(
        fmt::format("the stages hold {} of the model's {} layers", next_layer, plan.model.layers));
  }
  for (size_t r = 0; r < plan.ranks.size(); ++r) {
    const Placement& placement = plan.ranks[r];
    const auto rank = static_cast<int32_t>(r);
    if (placement.rank != rank || placement.stage != rank / plan.replicas() ||
        placement.replica != rank % plan.replicas()) {
      return unusable(
          fmt::format("ranks[{}] has no place in the Plan: it should be rank {}, stage "
                      "{}, replica {}",
                      r, r, rank / plan.replicas(), rank % plan.replicas()));
    }
    const cluster::Datacenter* datacenter = plan.cluster.find(placement.datacenter);
    if (!datacenter || placement.node < 0 || placement.node >= datacenter->nodes ||
        placement.device < 0 || placement.device >= datacenter->devices_per_node) {
      return unusable(fmt::format("rank {} sits on a device that the cluster does not have", r));
    }
    const Placement& first = plan.ranks[plan.rank_of(placement.stage, 0)];
    if (placement.datacenter != first.datacenter) {
      return unusable(
          fmt::format("stage {} has replicas in {} and in {}", placement.stage, first.datacenter,
                      placement.datacenter),
          "all replicas of a stage in one datacenter: data parallelism over a WAN is not "
          "available yet");
    }
  }
  for (int32_t s = 1; s < static_cast<int32_t>(plan.stages.size()); ++s) {
    const std::string& before = plan.ranks[plan.rank_of(s - 1, 0)].datacenter;
    const std::string& here = plan.ranks[plan.rank_of(s, 0)].datacenter;
    if (before != here && !plan.cluster.link(before, here)) {
      return unusable(fmt::format("there is no WAN link between {} and {}", before, here),
                      "adding a [[wan]] table for this pair");
    }
  }
  return {};
}

Channel channel_between(const Plan& plan, int32_t from, int32_t to) {
  CHECK(from != to, "rank {} needs no channel to itself", from);
  const cluster::Datacenter& source = plan.datacenter_of(from);
  const cluster::Datacenter& target = plan.datacenter_of(to);
  Channel channel;
  const bool imagined = plan.cost_source == CostSource::kStageTimes;
  if (source.name == target.name) {
    channel.link = source.name;
    const bool same_node = plan.ranks[from].node == plan.ranks[to].node;
    channel.latency = same_node ? source.scale_up.latency : source.scale_out.latency;
    channel.rate = same_node ? source.scale_up.bandwidth : source.scale_out.bandwidth;
    if (imagined) {
      channel.latency = 0_s;
      channel.occupancy = 0_s;
    }
    return channel;
  }
  const cluster::WanLink* link = plan.cluster.link(source.name, target.name);
  CHECK(link, "no WAN link between {} and {}", source.name, target.name);
  channel.wan = true;
  channel.link = source.name + " -> " + target.name;
  channel.latency = link->one_way_latency;
  channel.rate = cluster::flow_rate(*link);
  if (plan.wan_transfer) {
    channel.latency = plan.wan_latency;
    channel.occupancy = plan.wan_transfer;
  }
  return channel;
}

Channel expected_channel(const Plan& plan, int32_t from, int32_t to) {
  Channel channel = channel_between(plan, from, to);
  if (!channel.wan || channel.occupancy) return channel;
  const std::string& source = plan.ranks[from].datacenter;
  const std::string& target = plan.ranks[to].datacenter;
  for (const MeasuredLink& link : plan.measured_links) {
    if ((link.between[0] == source && link.between[1] == target) ||
        (link.between[0] == target && link.between[1] == source)) {
      channel.latency = link.one_way_latency;
      channel.rate = link.rate;
    }
  }
  return channel;
}

Channel shared_channel(const Plan& plan, int32_t from, int32_t to) {
  Channel channel = expected_channel(plan, from, to);
  CHECK(channel.wan, "ranks {} and {} share no WAN", from, to);
  const auto pipelines = static_cast<double>(plan.parallelism.pipelines_per_cell());
  if (channel.occupancy) {
    channel.occupancy = *channel.occupancy / pipelines;
    return channel;
  }
  const cluster::Datacenter& source = plan.datacenter_of(from);
  const cluster::Datacenter& target = plan.datacenter_of(to);
  const cluster::WanLink& link = *plan.cluster.link(source.name, target.name);
  // Pipelines on one node share what the provider lets this node have.
  const int32_t cell = static_cast<int32_t>(pipelines);
  const int32_t first = from - plan.ranks[from].replica % cell;
  std::set<std::pair<int64_t, int64_t>> node_pairs;
  for (int32_t i = 0; i < cell; ++i) {
    const int32_t other = to - plan.ranks[to].replica % cell + i;
    node_pairs.emplace(plan.ranks[first + i].node, plan.ranks[other].node);
  }
  const BytesPerSecond of_nodes =
      std::max(link.node_pair_limit, channel.rate) * static_cast<double>(node_pairs.size());
  channel.rate = std::min(channel.rate * pipelines, of_nodes);
  if (link.path_limit) channel.rate = std::min(channel.rate, *link.path_limit);
  if (pipelines == 1) return channel;
  // All parts but its own leave the sender through its network card, and so they arrive.
  const Bytes others = plan.boundary * ((pipelines - 1) / pipelines);
  channel.latency += others / source.scale_out.bandwidth + source.scale_out.latency +
                     others / target.scale_out.bandwidth + target.scale_out.latency;
  return channel;
}

}  // namespace tombolo::plan
