// Topology: a network made of building blocks, one per dimension.
//
// NPU i has coordinate (i / stride) mod size in a dimension, the first dimension varying fastest.
// Along a dimension the NPUs that differ in that coordinate alone form one block:
//
//   Ring            each NPU has a link to both neighbours; a message takes the shorter way
//   FullyConnected  each NPU has a link to every other
//   Switch          each NPU has a link to a switch and one back: two hops
//   WAN             the last dimension alone, its size counts datacenters: between two of them all
//                   NPUs share one path in each direction. Ours, and under the law `fluid` only
//
// Law `analytical` (ASTRA-sim: congestion-unaware): a message of b bytes over h hops takes
//   floor(h * latency + b / bandwidth)  nanoseconds
// whatever else is under way. Between NPUs that differ in several dimensions it counts the first of
// these alone, as ASTRA-sim does. Source: Won et al., "ASTRA-sim 2.0", ISPASS 2023, section IV-C;
// docs/laws/analytical_network.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/time.h"

namespace tombolo::network {

enum class Block : uint8_t { kRing, kFullyConnected, kSwitch, kWan };
constexpr auto enum_names(Block) {
  return std::to_array<EnumName<Block>>({{Block::kRing, "Ring"},
                                         {Block::kFullyConnected, "FullyConnected"},
                                         {Block::kSwitch, "Switch"},
                                         {Block::kWan, "WAN"}});
}

struct Dimension {
  Block block = Block::kRing;
  int32_t npus = 2;
  double bandwidth = 50;  // of a link in one direction, in units of 2^30 bytes per second
  double latency = 500;   // of a link, in nanoseconds
  // WAN: what one message may have of the path, its connection's window over the round trip; 0: all
  double flow_bandwidth = 0;
};

class Topology {
 public:
  // Unusable: no dimension, a size below 1, more than 2^24 NPUs, a bandwidth that is not positive,
  // a negative latency, a WAN that is not the last dimension, a flow bandwidth without a WAN.
  static Result<Topology> create(std::vector<Dimension> dimensions);

  int32_t npus() const { return npus_; }
  size_t dimensions() const { return shape_.size(); }
  bool has_wan() const { return shape_.back().dimension.block == Block::kWan; }
  const Dimension& dimension(size_t d) const { return shape_[d].dimension; }
  int32_t size(size_t d) const { return shape_[d].dimension.npus; }
  int32_t stride(size_t d) const { return shape_[d].stride; }  // between neighbours along d
  int32_t coordinate(int32_t npu, size_t d) const {
    return npu / shape_[d].stride % shape_[d].dimension.npus;
  }

  // The first dimension in which two NPUs differ; CHECKs that they do.
  size_t first_difference(int32_t from, int32_t to) const;

  int32_t hops(size_t d, int32_t from_coordinate, int32_t to_coordinate) const;

  // Law `analytical`, along one dimension and between any two NPUs.
  SimDuration delay(size_t d, int32_t hops, int64_t bytes) const;
  SimDuration delay(int32_t from, int32_t to, int64_t bytes) const;
  // Ours, where every dimension counts: latencies of all in which they differ, and the thinnest of
  // their links.
  SimDuration delay_through_all(int32_t from, int32_t to, int64_t bytes) const;

  // Of one link: how long it is busy with a message, and when that has arrived at the other end.
  SimDuration serialization(size_t d, int64_t bytes) const;

  std::string text() const;  // "Ring(8) x Switch(4)"

 private:
  struct Shape {
    Dimension dimension;
    int32_t stride = 1;
    double bytes_per_ns = 1;
  };
  std::vector<Shape> shape_;
  int32_t npus_ = 1;
};

// An ASTRA-sim network file (YAML): lists topology, npus_count, bandwidth, latency of equal length;
// of ours, next to a WAN, flow-bandwidth: one number.
// Unusable, naming file and key: what cannot be parsed, an unknown key or block, unequal lengths.
Result<Topology> read_topology(const std::string& path);
Result<Topology> parse_topology(const std::string& text, const std::string& name);

}  // namespace tombolo::network
