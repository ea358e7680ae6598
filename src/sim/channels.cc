#include "sim/channels.h"

#include <algorithm>
#include <string>
#include <tuple>

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

ChannelLaw law_between(const plan::Plan& plan, int32_t from, int32_t to, Links& links) {
  const plan::Channel channel = plan::expected_channel(plan, from, to);
  ChannelLaw law;
  law.latency = round_to_ns(channel.latency);
  if (channel.occupancy) {
    law.occupancy = round_to_ns(*channel.occupancy);
    return law;
  }
  law.flow.cap = channel.rate;
  if (!channel.wan) return law;
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

}  // namespace

Channels channels_of(const plan::Plan& plan) {
  Channels channels;
  Links links(channels.links);
  for (int32_t stage = 0; stage + 1 < static_cast<int32_t>(plan.stages.size()); ++stage) {
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

}  // namespace tombolo::sim
