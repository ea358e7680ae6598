#include "decide/across/line_rates.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::across {

void scale_line_rates(cluster::Cluster& cluster, double factor) {
  for (cluster::WanLink& link : cluster.wan) {
    link.node_pair_limit = link.node_pair_limit * factor;
    if (link.path_limit) link.path_limit = *link.path_limit * factor;
  }
}

BytesPerSecond slowest_line(const cluster::Cluster& cluster) {
  CHECK(!cluster.wan.empty(), "no [[cluster.wan]]");
  BytesPerSecond slowest = cluster.wan.front().node_pair_limit;
  for (const cluster::WanLink& each : cluster.wan)
    slowest = std::min(slowest, each.node_pair_limit);
  return slowest;
}

void set_slowest_line(cluster::Cluster& cluster, BytesPerSecond rate) {
  scale_line_rates(cluster, rate / slowest_line(cluster));
}

}  // namespace tombolo::across
