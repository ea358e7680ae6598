#include "predict/sim/equal_pipelines.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "spec/schedule/schedule.h"

namespace tombolo::sim {
namespace {

// What a channel does to a message, whatever its links are called.
using Law = std::tuple<int64_t, int64_t, double, std::vector<std::pair<double, double>>>;

Law law_of(const engine::Flow& flow, SimDuration latency, std::optional<SimDuration> occupancy,
           const Channels& channels) {
  std::vector<std::pair<double, double>> links;
  for (size_t i = 0; i < flow.links.size(); ++i) {
    const double share = flow.shares.empty() ? 1 : flow.shares[i];
    links.emplace_back(channels.links[flow.links[i]].capacity.value, share);
  }
  return {latency.ns, occupancy ? occupancy->ns : -1, flow.cap.value, std::move(links)};
}

using Kind = std::tuple<int64_t, std::vector<Law>, std::vector<std::pair<int64_t, bool>>>;

Kind kind_of(const plan::Plan& plan, const Channels& channels, int32_t replica) {
  std::vector<Law> laws;
  std::vector<std::pair<int64_t, bool>> ranks;
  const auto stages = static_cast<int32_t>(plan.stages.size());
  for (int32_t stage = 0; stage < stages; ++stage) {
    const int32_t rank = plan.rank_of(stage, replica);
    if (const auto sum = channels.sums.find(rank); sum != channels.sums.end())
      laws.push_back(law_of(sum->second, {}, {}, channels));
    // Of the last one: the first, with which it may share a tied embedding.
    const int32_t next = plan.rank_of(stage + 1 < stages ? stage + 1 : 0, replica);
    for (const auto& pair : {std::pair{rank, next}, std::pair{next, rank}}) {
      const auto channel = channels.laws.find(pair);
      ranks.emplace_back(stage, channel == channels.laws.end());
      if (channel == channels.laws.end()) continue;
      const ChannelLaw& law = channel->second;
      laws.push_back(law_of(law.flow, law.latency, law.occupancy, channels));
    }
  }
  return {plan.microbatches_of(replica), std::move(laws), std::move(ranks)};
}

bool join_only_in_collectives(const plan::Plan& plan) {
  const auto elsewhere = [&](const layout::Placement& rank) {
    return rank.datacenter != plan.ranks.front().datacenter;
  };
  return schedule::shape_of(plan).shared.empty() && !plan.given && !plan.exchanges_gradients() &&
         std::none_of(plan.ranks.begin(), plan.ranks.end(), elsewhere);
}

}  // namespace

PipelineSample one_of_each_kind(const plan::Plan& plan) {
  PipelineSample sample = all_pipelines(plan);
  if (plan.replicas() == 1 || !join_only_in_collectives(plan)) return sample;
  sample.channels = channels_of(plan);
  std::map<Kind, int32_t> first;
  for (int32_t& like : sample.like)
    like = first.try_emplace(kind_of(plan, sample.channels, like), like).first->second;
  std::erase_if(sample.replicas, [&](int32_t replica) {
    return sample.like[static_cast<size_t>(replica)] != replica;
  });
  sample.all = std::ssize(sample.replicas) == plan.replicas();
  return sample;
}

PipelineSample all_pipelines(const plan::Plan& plan) {
  std::vector<int32_t> all(static_cast<size_t>(plan.replicas()));
  std::iota(all.begin(), all.end(), 0);
  return {.replicas = all, .like = all};
}

}  // namespace tombolo::sim
