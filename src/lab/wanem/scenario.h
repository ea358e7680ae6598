// What the emulated WAN is like: one shape per direction between two datacenters.
//
// A scenario file is a cluster file: each [[wan]] link gives two directions with the same figures,
// divided by byte_scale where they count bytes (rates, queues, TCP windows), times unchanged. The
// number of connections is up to the programs that open them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "spec/cluster/cluster.h"
#include "spec/cluster/rate_trace.h"

namespace tombolo::wanem {

// Rates count the bytes of IP packets, their headers included, and no Ethernet framing.
struct LinkShape {
  SimDuration delay;                             // one way
  SimDuration jitter;                            // standard deviation of the delay; order is kept
  double loss = 0;                               // share of segments lost
  double loss_burst = 1;                         // lost in a row, mean; 1: independent
  std::optional<BytesPerSecond> node_pair_rate;  // of each pair of hosts; left out: no limit
  cluster::RateTrace trace;                      // where not empty: instead of node_pair_rate
  std::optional<BytesPerSecond> path_rate;       // what all pairs of hosts share
  std::optional<Bytes> queue;                    // before each of the two rates; see queue_limit
  std::optional<Bytes> tcp_window;               // of each connection; see window_bound.h

  // Names the invalid field and its value.
  Status check() const;
};

// What may wait before a serialiser of this rate: shape.queue, or else what a round trip carries,
// 256 KiB at least (four of the kernel's largest frames).
Bytes queue_limit(const LinkShape& shape, BytesPerSecond rate);

struct Direction {
  int from = 0;  // indices of datacenters
  int to = 0;
  LinkShape shape;
};

struct Scenario {
  std::vector<std::string> datacenters;
  std::vector<Direction> directions;  // a pair that is not here has no link

  Status check() const;
};

// Reads the rate traces of the links, too. byte_scale >= 1.
// TCP windows become whole segments where they are divided.
Result<Scenario> scenario_of(const cluster::Cluster& cluster, double byte_scale);

}  // namespace tombolo::wanem
