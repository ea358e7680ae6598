#include <cmath>

#include "base/check.h"
#include "predict/astra/workload_run.h"
#include "predict/cost/configuration.h"
#include "predict/cost/constants.h"
#include "predict/cost/law.h"

namespace tombolo::astra {
namespace {

using network::Dimension;

template <typename Fabric>
Dimension switched(const Fabric& fabric, const cost::FabricConstants& reached, int64_t npus) {
  return {network::Block::kSwitch, static_cast<int32_t>(npus),
          fabric.bandwidth.value * reached.efficiency / (int64_t{1} << 30),
          fabric.latency.value * 1e9 / 2};
}

// The GPUs of a domain that a job takes where it does not fill domains: those over which `estimate` lays
// its groups.
Result<int64_t> taken_of_domain(const plan::Job& job, int64_t domain) {
  const cost::Configuration c = TRY(cost::configuration_of(job));
  const cost::GroupPlacement groups = cost::lay_out(c, cost::usable_domain(domain, c.devices()));
  return groups.tensor.domain * groups.context.domain * groups.data.domain * groups.pipeline.domain;
}

}  // namespace

Result<network::Topology> network_of(const plan::Job& job, int32_t ranks) {
  CHECK(ranks >= 1, "a network of {} ranks", ranks);
  const char* const hint = "a network file: --network-configuration=network.yml";
  if (job.cluster.datacenters.size() != 1) {
    return unusable(fmt::format("[[cluster.datacenter]]: {} of them; a network is made of one",
                                job.cluster.datacenters.size()),
                    hint);
  }
  const cluster::Datacenter& here = job.cluster.datacenters.front();
  const cost::Constants constants = TRY(cost::find_constants(here, job.training.stack));
  const auto inside = [&](int64_t npus) {
    return switched(here.scale_up, constants.scale_up, npus);
  };
  const auto outside = [&](int64_t npus) {
    return switched(here.scale_out, constants.scale_out, npus);
  };
  int64_t domain = here.scale_up.domain;
  if (ranks <= domain) return network::Topology::create({inside(ranks)});
  if (ranks % domain != 0) domain = TRY(taken_of_domain(job, domain));
  if (ranks % domain != 0) {
    return unusable(
        fmt::format("scale_up.domain = {}: {} ranks leave a domain partly empty", domain, ranks),
        hint);
  }
  if (domain == 1) return network::Topology::create({outside(ranks)});
  return network::Topology::create({inside(domain), outside(ranks / domain)});
}

SystemSettings system_of(const plan::Job& job, size_t dimensions, GroupShape groups) {
  CHECK(!job.cluster.datacenters.empty(), "{}: a job without a datacenter", job.file);
  SystemSettings out;
  out.groups = groups;
  out.all_reduce_shape = AllReduceShape::kLocalBandwidthAware;
  out.splits = 4;
  out.endpoint_delay = 0;
  out.memory_bandwidth = job.cluster.datacenters.front().device.memory_bandwidth.value / 1e9;
  const network::AlgorithmChoice ring = *network::parse_algorithm("ring");
  using enum graph::CollectiveType;
  for (const auto collective : {kAllReduce, kAllGather, kReduceScatter}) {
    out.algorithms[collective].assign(dimensions, ring);
  }
  // A ring would pass each message on through n / 2 others, and its dimensions are switches: one
  // message after another, for an NPU has one link to each. A group that is a ring takes the ring
  // where a list has several, so there one word stands for all dimensions.
  out.algorithms[kAllToAll].assign(dimensions, *network::parse_algorithm("direct1"));
  if (!hierarchical(out)) out.algorithms[kAllToAll] = {*network::parse_algorithm("oneDirect")};
  return out;
}

Result<SystemSettings> system_on(const plan::Job& job, const network::Topology& own,
                                 GroupShape groups) {
  SystemSettings out = system_of(job, own.dimensions(), groups);
  const cluster::Datacenter& here = job.cluster.datacenters.front();
  const cost::Constants constants = TRY(cost::find_constants(here, job.training.stack));
  const auto ns = [](Seconds time) { return std::llround(time.value * 1e9); };
  const bool inside = own.dimensions() > 1 || own.npus() <= here.scale_up.domain;
  const bool outside = own.dimensions() > 1 || !inside;
  out.memory_bandwidth = 0;
  if (!hierarchical(out)) return out;
  if (inside) out.startup.push_back(ns(constants.scale_up.startup));
  if (outside) out.startup.push_back(ns(constants.scale_out.startup));
  return out;
}

}  // namespace tombolo::astra
