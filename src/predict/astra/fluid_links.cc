#include "predict/astra/fluid_links.h"

#include "base/check.h"

namespace tombolo::astra {
namespace {

constexpr double kGibibyte = 1 << 30;

std::vector<engine::Link> links_of(const network::Topology& topology,
                                   const network::Routes& routes) {
  CHECK(routes.links() < UINT32_MAX, "{} links", routes.links());
  std::vector<engine::Link> links(static_cast<size_t>(routes.links()));
  for (size_t d = 0; d < topology.dimensions(); ++d) {
    const auto last = static_cast<size_t>(d + 1 < topology.dimensions() ? routes.first_link(d + 1)
                                                                        : routes.links());
    for (auto l = static_cast<size_t>(routes.first_link(d)); l < last; ++l) {
      links[l].capacity = {topology.dimension(d).bandwidth * kGibibyte};
    }
  }
  return links;
}

}  // namespace

FluidLinks::FluidLinks(const network::Topology& topology, const RankClasses* classes)
    : topology_(&topology),
      classes_(classes),
      routes_(topology),
      network_(links_of(topology, routes_)) {}

// The link of a hop, or the one that stands for it and its like; nothing where none does.
std::optional<uint32_t> FluidLinks::link_for(network::Routes::Place at,
                                             const network::Routes::Hop& hop, int32_t from,
                                             const MessageCause& cause) {
  if (classes_ == nullptr) return static_cast<uint32_t>(hop.link);
  const auto stand_in = [&](int32_t npu) {
    const auto number = static_cast<size_t>(classes_->class_of[static_cast<size_t>(npu)]);
    return int64_t{classes_->first[number]};
  };
  switch (topology_->dimension(hop.dimension).block) {
    case network::Block::kSwitch:
    case network::Block::kRing: {
      const bool ring = topology_->dimension(hop.dimension).block == network::Block::kRing;
      if (ring && !cause.turns) return std::nullopt;
      const int32_t owner = at.at_switch ? hop.end.npu : at.npu;
      const int64_t moved = stand_in(owner) - owner;
      return static_cast<uint32_t>(hop.link + 2 * moved);  // two links an NPU (network/route.h)
    }
    case network::Block::kFullyConnected:
      // Who is to whom as this is to that? Of one group's members all are, or of a node's peers.
      if (stand_in(from) != from) return std::nullopt;
      if (group_on_.try_emplace(hop.link, cause.group).first->second != cause.group)
        return std::nullopt;
      return static_cast<uint32_t>(hop.link);
    case network::Block::kWan:
      return std::nullopt;  // all ranks share a path
  }
  CHECK(false, "block {}", static_cast<int>(topology_->dimension(hop.dimension).block));
}

bool FluidLinks::start(SimTime now, uint32_t message, int32_t from, int32_t to, int64_t bytes,
                       const MessageCause& cause) {
  CHECK(from != to, "NPU {} sends to itself", from);
  engine::Flow flow;
  double latency = 0;
  for (network::Routes::Place at{from, false}; at != network::Routes::Place{to, false};) {
    const network::Routes::Hop hop = routes_.next_hop(at, to);
    const network::Dimension& dimension = topology_->dimension(hop.dimension);
    const std::optional<uint32_t> link = link_for(at, hop, from, cause);
    if (!link) return false;
    if (classes_ != nullptr && hop.dimension != topology_->first_difference(from, to)) return false;
    flow.links.push_back(*link);
    if (dimension.flow_bandwidth > 0) flow.cap = {dimension.flow_bandwidth * kGibibyte};
    latency += dimension.latency;
    at = hop.end;
  }
  const engine::FlowId id = network_.start(now, {static_cast<double>(bytes)}, std::move(flow));
  under_way_.emplace(id, UnderWay{message, SimDuration{static_cast<int64_t>(latency)}});
  return true;
}

std::vector<FluidLinks::Left> FluidLinks::finish(SimTime now) {
  std::vector<Left> out;
  for (const engine::Completion& done : network_.finish(now)) {
    const auto found = under_way_.find(done.flow);
    out.push_back({found->second.message, done.time + found->second.latency});
    under_way_.erase(found);
  }
  return out;
}

}  // namespace tombolo::astra
