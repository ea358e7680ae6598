#include "spec/cluster/tight_windows.h"

#include <algorithm>

namespace tombolo::cluster {

double window_share(const WanLink& link) {
  if (!link.tcp_window || link.one_way_latency.value <= 0) return 0;
  BytesPerSecond carried = link.node_pair_limit;
  if (link.path_limit) carried = std::min(carried, *link.path_limit);
  return link.connections * link.tcp_window->value /
         (carried.value * 2 * link.one_way_latency.value);
}

bool has_tight_windows(const WanLink& link) {
  const double share = window_share(link);
  return share >= 0.75 && share < 1.5;
}

}  // namespace tombolo::cluster
