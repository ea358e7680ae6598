// A job over faster or slower lines: all WAN links in proportion.
#pragma once

#include "base/units.h"
#include "spec/cluster/cluster.h"

namespace tombolo::across {

// Limits of pairs and of paths, times `factor`; traces and windows stay.
void scale_line_rates(cluster::Cluster& cluster, double factor);

// What a pair of nodes has on the slowest WAN link, of which there must be one.
BytesPerSecond slowest_line(const cluster::Cluster& cluster);

// All lines in proportion, so that the slowest has this rate.
void set_slowest_line(cluster::Cluster& cluster, BytesPerSecond rate);

}  // namespace tombolo::across
