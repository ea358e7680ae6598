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

FluidLinks::FluidLinks(const network::Topology& topology)
    : topology_(&topology), routes_(topology), network_(links_of(topology, routes_)) {}

void FluidLinks::start(SimTime now, uint32_t message, int32_t from, int32_t to, int64_t bytes) {
  CHECK(from != to, "NPU {} sends to itself", from);
  engine::Flow flow;
  double latency = 0;
  for (network::Routes::Place at{from, false}; at != network::Routes::Place{to, false};) {
    const network::Routes::Hop hop = routes_.next_hop(at, to);
    const network::Dimension& dimension = topology_->dimension(hop.dimension);
    flow.links.push_back(static_cast<uint32_t>(hop.link));
    if (dimension.flow_bandwidth > 0) flow.cap = {dimension.flow_bandwidth * kGibibyte};
    latency += dimension.latency;
    at = hop.end;
  }
  const engine::FlowId id = network_.start(now, {static_cast<double>(bytes)}, std::move(flow));
  under_way_.emplace(id, UnderWay{message, SimDuration{static_cast<int64_t>(latency)}});
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
