// How long a collective operation takes on a homogeneous network, and the law that says so.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace tombolo::cost {

// What each rank puts into its sum and how it reaches the next one.
struct AllReduce {
  Bytes size;           // of each rank's contribution
  int64_t ranks = 1;    // that take part; one alone needs no time
  BytesPerSecond rate;  // from a rank to its successor
  Seconds latency;      // one way
};

// Law `ring-all-reduce`: 2 (n-1) steps, in each of which every rank sends one n-th to its
// successor.
//
//   T = 2 (n-1) (latency + size / (n rate));  each rank sends 2 (n-1)/n size
//
// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
// JPDC 69(2), 2009. Domain: equal ranks, links that carry both directions at once, summing faster
// than the network. docs/laws/ring_all_reduce.md.
Seconds ring_all_reduce(const AllReduce& what);

}  // namespace tombolo::cost
