#include "base/check.h"
#include "predict/astra/workload_run.h"

namespace tombolo::astra {
namespace {

using network::Dimension;

template <typename Fabric>
Dimension switched(const Fabric& fabric, int64_t npus) {
  return {network::Block::kSwitch, static_cast<int32_t>(npus),
          fabric.bandwidth.value / (int64_t{1} << 30), fabric.latency.value * 1e9 / 2};
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
  const int64_t domain = here.scale_up.domain;
  if (ranks <= domain) return network::Topology::create({switched(here.scale_up, ranks)});
  if (ranks % domain != 0) {
    return unusable(
        fmt::format("scale_up.domain = {}: {} ranks leave a domain partly empty", domain, ranks),
        hint);
  }
  if (domain == 1) return network::Topology::create({switched(here.scale_out, ranks)});
  return network::Topology::create(
      {switched(here.scale_up, domain), switched(here.scale_out, ranks / domain)});
}

SystemSettings system_of(const plan::Job& job, size_t dimensions) {
  CHECK(!job.cluster.datacenters.empty(), "{}: a job without a datacenter", job.file);
  SystemSettings out;
  out.all_reduce_shape = AllReduceShape::kLocalBandwidthAware;
  out.splits = 4;
  out.endpoint_delay = 0;
  out.memory_bandwidth = job.cluster.datacenters.front().device.memory_bandwidth.value / 1e9;
  const network::AlgorithmChoice ring = *network::parse_algorithm("ring");
  using enum graph::CollectiveType;
  for (const auto collective : {kAllReduce, kAllGather, kReduceScatter}) {
    out.algorithms[collective].assign(dimensions, ring);
  }
  // A ring would pass each message on through n / 2 others, and its dimensions are switches. One word for
  // all dimensions: a group takes the ring where a list has several.
  out.algorithms[kAllToAll] = {*network::parse_algorithm("oneDirect")};
  return out;
}

}  // namespace tombolo::astra
