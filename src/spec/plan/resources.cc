#include "spec/plan/resources.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tombolo::plan {
namespace {

// Equal uses of one resource are one.
void add_use(Route& route, uint32_t resource, double share) {
  const auto same = std::find_if(route.begin(), route.end(),
                                 [&](const Use& use) { return use.resource == resource; });
  if (same != route.end()) {
    same->share += share;
  } else {
    route.push_back({resource, share});
  }
}

}  // namespace

Route Resources::message(int32_t from, int32_t to) {
  const Channel channel = expected_channel(plan_, from, to);
  Route route;
  if (channel.occupancy) return route;
  const bool inside = same_nodes(plan_, from, to);
  add_use(route, port(inside ? ResourceKind::kScaleUpOut : ResourceKind::kNetworkOut, from), 1);
  add_use(route, port(inside ? ResourceKind::kScaleUpIn : ResourceKind::kNetworkIn, to), 1);
  if (channel.wan) cross_wan(from, to, 1, route);
  return route;
}

Route Resources::shared_message(int32_t from, int32_t to) {
  const Channel channel = shared_channel(plan_, from, to);
  Route route;
  if (channel.occupancy) return route;
  const std::vector<int32_t> members = sharers(plan_, from, to);
  const int32_t own = plan_.ranks[from].replica;
  const double part = 1.0 / static_cast<double>(members.size());
  for (const int32_t replica : members) {
    const int32_t here = from - own + replica, there = to - own + replica;
    add_use(route, port(ResourceKind::kNetworkOut, here), here == from ? 1 : part);
    add_use(route, port(ResourceKind::kNetworkIn, there), there == to ? 1 : part);
    cross_wan(here, there, part, route);
  }
  return route;
}

Route Resources::sum_of_gradients(int32_t rank) {
  Route route;
  const layout::Placement& here = plan_.ranks[static_cast<size_t>(rank)];
  const auto members = static_cast<double>(plan_.parallelism.data * plan_.parallelism.context);
  if (members == 1 || plan_.cost_source == CostSource::kStageTimes) return route;
  const std::map<int64_t, double>& on_node = who_sums(here.stage);
  if (on_node.empty()) return route;
  const double beside = on_node.at(here.node);
  const auto nodes = static_cast<double>(on_node.size());
  const double shards = static_cast<double>(here.shards) * (plan_.parallelism.zero > 0 ? 1 : 2);
  const double inside = shards * (beside - 1) / beside;
  const double outside = shards * (nodes - 1) / nodes / beside;
  if (inside > 0) {
    add_use(route, port(ResourceKind::kScaleUpOut, rank), inside);
    add_use(route, port(ResourceKind::kScaleUpIn, rank), inside);
  }
  if (outside > 0) {
    add_use(route, port(ResourceKind::kNetworkOut, rank), outside);
    add_use(route, port(ResourceKind::kNetworkIn, rank), outside);
  }
  return route;
}

// Those that sum with the first shard, by node: the same part of every layer, of all contexts and
// replicas. None where replicas are in different datacenters.
const std::map<int64_t, double>& Resources::who_sums(int32_t stage) {
  const auto [entry, fresh] = summing_.try_emplace(stage);
  std::map<int64_t, double>& on_node = entry->second;
  if (!fresh || plan_.replicas_lie_apart(stage)) return on_node;
  for (const int32_t replica : plan_.replicas_of(stage)) {
    for (int64_t c = 0; c < plan_.parallelism.context; ++c) {
      on_node[plan_.place_of(replica, c * plan_.parallelism.tensor_at(stage)).node] += 1;
    }
  }
  return on_node;
}

void Resources::cross_wan(int32_t from, int32_t to, double share, Route& route) {
  const layout::Placement& source = plan_.ranks[from];
  const layout::Placement& target = plan_.ranks[to];
  const cluster::WanLink& link = *plan_.cluster.link(source.datacenter, target.datacenter);
  const BytesPerSecond measured = expected_channel(plan_, from, to).rate;
  const int64_t here = index_of(source.datacenter), there = index_of(target.datacenter);
  // Not below what was measured: where the file says less than there is, the measurement counts.
  const BytesPerSecond pair = std::max(link.node_pair_limit, measured);
  const std::vector<NodePair> pairs = node_pairs(plan_, from, to);
  double lanes = 0;
  for (const NodePair& each : pairs) lanes += static_cast<double>(each.count);
  for (const NodePair& each : pairs) {
    const uint32_t number = find({ResourceKind::kNodePair, here, each.from, there, each.to},
                                 fmt::format("{} node {} -> {} node {}", source.datacenter,
                                             each.from, target.datacenter, each.to),
                                 pair);
    all_[number].wan = static_cast<size_t>(&link - plan_.cluster.wan.data());
    add_use(route, number, share * static_cast<double>(each.count) / lanes);
  }
  if (!link.path_limit) return;
  add_use(
      route,
      find({ResourceKind::kPath, here, 0, there, 0}, source.datacenter + " -> " + target.datacenter,
           std::max(*link.path_limit, measured)),
      share);
}

uint32_t Resources::port(ResourceKind kind, int32_t rank) {
  const cluster::Datacenter& datacenter = plan_.datacenter_of(rank);
  const bool scale_up = kind == ResourceKind::kScaleUpOut || kind == ResourceKind::kScaleUpIn;
  const bool out = kind == ResourceKind::kScaleUpOut || kind == ResourceKind::kNetworkOut;
  return find(
      {kind, rank, 0, 0, 0},
      fmt::format("rank {}, {} {}", rank, scale_up ? "scale-up" : "network", out ? "out" : "in"),
      (scale_up ? datacenter.scale_up.bandwidth : datacenter.scale_out.bandwidth) *
          static_cast<double>(plan_.ranks[static_cast<size_t>(rank)].shards));
}

uint32_t Resources::find(const Key& key, std::string name, BytesPerSecond capacity) {
  const auto [entry, fresh] = numbers_.emplace(key, static_cast<uint32_t>(all_.size()));
  if (fresh) all_.push_back({std::get<0>(key), std::move(name), capacity, {}});
  return entry->second;
}

int64_t Resources::index_of(const std::string& datacenter) const {
  const auto& all = plan_.cluster.datacenters;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const auto& each) { return each.name == datacenter; });
  CHECK(found != all.end(), "there is no datacenter {}", datacenter);
  return found - all.begin();
}

}  // namespace tombolo::plan
