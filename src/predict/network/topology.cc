#include "predict/network/topology.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tombolo::network {
namespace {

constexpr double kGibibyte = 1 << 30;
constexpr int64_t kNpusMax = int64_t{1} << 24;

// Fractions of a nanosecond are cut off, as ASTRA-sim's conversion to an integer does.
SimDuration floor_ns(double ns) {
  CHECK(ns < 4e18, "a message takes {} ns", ns);
  return {static_cast<int64_t>(ns)};
}

}  // namespace

Result<Topology> Topology::create(std::vector<Dimension> dimensions) {
  if (dimensions.empty()) return unusable("the network has no dimension", "topology: [ Ring ]");
  Topology out;
  int64_t npus = 1;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const Dimension& dimension = dimensions[d];
    if (dimension.npus < 1) {
      return unusable(
          fmt::format("npus_count[{}] = {}: a dimension has at least 1 NPU", d, dimension.npus));
    }
    if (!(dimension.bandwidth > 0) || !std::isfinite(dimension.bandwidth)) {
      return unusable(fmt::format("bandwidth[{}] = {}: must be positive", d, dimension.bandwidth),
                      "a number of GB per second, such as 50");
    }
    if (!(dimension.latency >= 0) || !(dimension.latency < 1e15)) {
      return unusable(
          fmt::format("latency[{}] = {}: must be nanoseconds, at least 0", d, dimension.latency),
          "a number of nanoseconds, such as 500");
    }
    const bool wan = dimension.block == Block::kWan;
    if (wan && d + 1 < dimensions.size()) {
      return unusable(fmt::format("topology[{}] = WAN: must be the last dimension", d),
                      "topology: [ Ring, WAN ]");
    }
    if (dimension.flow_bandwidth != 0 && !wan) {
      return unusable(fmt::format("flow-bandwidth = {}: belongs to a WAN, and the last of the "
                                  "dimensions is none",
                                  dimension.flow_bandwidth),
                      "topology: [ Ring, WAN ]");
    }
    if (!(dimension.flow_bandwidth >= 0) || !std::isfinite(dimension.flow_bandwidth)) {
      return unusable(
          fmt::format("flow-bandwidth = {}: must not be negative", dimension.flow_bandwidth),
          "a number of GB per second, such as 0.1");
    }
    out.shape_.push_back(
        {dimension, static_cast<int32_t>(npus), dimension.bandwidth * kGibibyte / 1'000'000'000});
    npus *= dimension.npus;
    if (npus > kNpusMax) return unusable("the network has more than 2^24 NPUs");
  }
  out.npus_ = static_cast<int32_t>(npus);
  return out;
}

size_t Topology::first_difference(int32_t from, int32_t to) const {
  CHECK(from != to, "NPU {} sends to itself", from);
  for (size_t d = 0; d + 1 < shape_.size(); ++d) {
    if (coordinate(from, d) != coordinate(to, d)) return d;
  }
  return shape_.size() - 1;
}

int32_t Topology::hops(size_t d, int32_t from, int32_t to) const {
  switch (shape_[d].dimension.block) {
    case Block::kRing: {
      const int32_t clockwise = from <= to ? to - from : to - from + size(d);
      return std::min(clockwise, size(d) - clockwise);
    }
    case Block::kFullyConnected:
    case Block::kWan:
      return 1;
    case Block::kSwitch:
      return 2;
  }
  CHECK(false, "block {}", static_cast<int>(shape_[d].dimension.block));
}

SimDuration Topology::delay(size_t d, int32_t hops, int64_t bytes) const {
  const Shape& shape = shape_[d];
  return floor_ns(hops * shape.dimension.latency + static_cast<double>(bytes) / shape.bytes_per_ns);
}

SimDuration Topology::delay(int32_t from, int32_t to, int64_t bytes) const {
  const size_t d = first_difference(from, to);
  return delay(d, hops(d, coordinate(from, d), coordinate(to, d)), bytes);
}

SimDuration Topology::delay_through_all(int32_t from, int32_t to, int64_t bytes) const {
  double latency = 0, slowest = 0;
  for (size_t d = 0; d < shape_.size(); ++d) {
    const int32_t here = coordinate(from, d), there = coordinate(to, d);
    if (here == there) continue;
    latency += hops(d, here, there) * shape_[d].dimension.latency;
    slowest = std::max(slowest, static_cast<double>(bytes) / shape_[d].bytes_per_ns);
  }
  return floor_ns(latency + slowest);
}

SimDuration Topology::serialization(size_t d, int64_t bytes) const {
  return floor_ns(static_cast<double>(bytes) / shape_[d].bytes_per_ns);
}

std::string Topology::text() const {
  std::string out;
  for (const Shape& shape : shape_) {
    out += fmt::format("{}{}({})", out.empty() ? "" : " x ", to_name(shape.dimension.block),
                       shape.dimension.npus);
  }
  return out;
}

}  // namespace tombolo::network
