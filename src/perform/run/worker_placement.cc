#include "perform/run/worker_placement.h"

#include <algorithm>

#include "perform/link/handshake.h"
#include "perform/transport/address.h"

namespace tombolo::run {
namespace {

Status check_islands(const plan::Plan& plan, const cluster::Islands& islands) {
  if (islands.byte_scale != plan.run.byte_scale) {
    return unusable(fmt::format("the islands were made with byte_scale = {}, the Plan has {}",
                                islands.byte_scale, plan.run.byte_scale),
                    "tools/islands with this job, so that both have one scale");
  }
  for (const cluster::WanLink& link : plan.cluster.wan) {
    if (link.connections <= link::kConnectionsMax) continue;
    return unusable(
        fmt::format("the WAN link {} - {} asks for connections = {}; the transport makes "
                    "at most {} per pair of ranks",
                    link.between[0], link.between[1], link.connections, link::kConnectionsMax),
        fmt::format("connections = {}", link::kConnectionsMax));
  }
  return {};
}

}  // namespace

Result<std::vector<WorkerPlacement>> worker_placements_of(
    const plan::Plan& plan, const std::optional<cluster::Islands>& islands) {
  if (!islands) return std::vector<WorkerPlacement>(plan.ranks.size());
  TRY(check_islands(plan, *islands));
  std::vector<WorkerPlacement> placements;
  for (const layout::Placement& placement : plan.ranks) {
    const cluster::Host* host = islands->find(placement.datacenter, placement.node);
    if (!host) {
      return unusable(
          fmt::format("rank {} sits on node {} of {}, which is no host of these islands",
                      placement.rank, placement.node, placement.datacenter),
          "tools/islands with this job, so that both have the same nodes");
    }
    placements.push_back(
        {.at = {.listen = host->address}, .network_namespace = host->network_namespace});
  }
  return placements;
}

Status check_reach(const plan::Plan& plan, const cluster::Islands& islands,
                   const std::string& launcher) {
  const auto at = std::find_if(islands.hosts.begin(), islands.hosts.end(),
                               [&](const cluster::Host& host) { return host.address == launcher; });
  if (at == islands.hosts.end()) return {};  // loopback, or no host's: all ranks reach it
  for (const layout::Placement& placement : plan.ranks) {
    if (placement.datacenter == at->datacenter ||
        plan.cluster.link(placement.datacenter, at->datacenter)) {
      continue;
    }
    return unusable(
        fmt::format("rank {} in {} could not reach the launcher in {}: there is no WAN "
                    "link between them",
                    placement.rank, placement.datacenter, at->datacenter),
        "adding a [[wan]] table for this pair, or tools/islands --host NAME with a host "
        "that reaches all");
  }
  return {};
}

std::string note_on_nodes(const plan::Plan& plan) {
  const std::string& first = plan.ranks.front().datacenter;
  const auto is_elsewhere = [&](const layout::Placement& each) { return each.datacenter != first; };
  if (std::none_of(plan.ranks.begin(), plan.ranks.end(), is_elsewhere)) return {};
  for (const layout::Placement& rank : plan.ranks) {
    for (int64_t shard = 1; shard < rank.shards; ++shard) {
      if (plan.place_of(rank.rank, shard).node == rank.node) continue;
      return fmt::format(
          "rank {} has shards on several nodes and is one process on the first of them: between "
          "datacenters it has the line of one node, where the prediction has those of all",
          rank.rank);
    }
  }
  return {};
}

Result<std::string> own_address(const std::optional<cluster::Islands>& islands) {
  if (!islands) return std::string("127.0.0.1");
  for (const cluster::Host& host : islands->hosts) {
    if (transport::is_address_of_this_host(host.address)) return host.address;
  }
  return unusable(fmt::format("{} is set, but this process runs on none of its hosts",
                              cluster::kIslandsVariable),
                  "running it inside: tools/islands JOB -- COMMAND");
}

Result<join::ListenAddress> address_now(const WorkerStart& start) {
  if (!start.wanted) return start.placement.at;
  join::ListenAddress at = TRY(join::rank_address(start.launcher, *start.wanted));
  at.no_inbound = start.placement.at.no_inbound;
  return at;
}

}  // namespace tombolo::run
