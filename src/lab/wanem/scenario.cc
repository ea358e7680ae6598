#include "lab/wanem/scenario.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"

namespace tombolo::wanem {
namespace {

// What a length of time must be: an hour is far beyond any WAN and far below an overflow.
Status check_span(const char* name, SimDuration span) {
  if (span.ns >= 0 && span <= SimDuration{3'600'000'000'000}) return {};
  return unusable(
      fmt::format("{} = {}: must lie between 0 and one hour", name, format(seconds(span))));
}

Status check_rate(const char* name, const std::optional<BytesPerSecond>& rate) {
  if (!rate || (std::isfinite(rate->value) && rate->value >= 1)) return {};
  return unusable(fmt::format("{} = {}: must be at least 8 bits per second", name, format(*rate)));
}

// A sender fills a window with whole segments only. Of 3 MB the rest is nothing; of 30 KB, what is
// left of it at a scale of 100, it would be up to 5 % of the rate: the nearest number of segments.
Bytes scaled_window(Bytes window, double byte_scale) {
  if (byte_scale == 1) return window;
  constexpr double kSegment = 1448;  // 1500 bytes less IPv4 and TCP headers with timestamps
  return Bytes{kSegment * std::max(1.0, std::round(window.value / byte_scale / kSegment))};
}

}  // namespace

Status LinkShape::check() const {
  TRY(check_span("delay", delay));
  TRY(check_span("jitter", jitter));
  if (!(loss >= 0 && loss < 1)) return unusable(fmt::format("loss = {}: must lie in [0, 1)", loss));
  if (!(loss_burst >= 1 && loss_burst <= 1e6)) {
    return unusable(fmt::format("loss_burst = {}: must lie between 1 and 1000000", loss_burst));
  }
  TRY(check_rate("node_pair_rate", node_pair_rate));
  TRY(check_rate("path_rate", path_rate));
  if (!trace.empty()) TRY(check_rate("the mean of rate_trace", trace.mean()));
  if (queue && !(queue->value > 0)) {
    return unusable(fmt::format("queue = {}: must be positive", format(*queue)));
  }
  if (tcp_window && !(tcp_window->value >= 1)) {
    return unusable(fmt::format("tcp_window = {}: must be at least a byte", format(*tcp_window)));
  }
  return {};
}

Bytes queue_limit(const LinkShape& shape, BytesPerSecond rate) {
  CHECK(rate.value > 0, "a queue before {} B/s", rate.value);
  if (shape.queue) return *shape.queue;
  return std::max(256_KiB, rate * seconds(shape.delay * 2));
}

Status Scenario::check() const {
  std::set<std::pair<int, int>> seen;
  const int count = static_cast<int>(datacenters.size());
  for (const Direction& direction : directions) {
    const auto [from, to] = std::pair(direction.from, direction.to);
    if (from < 0 || from >= count || to < 0 || to >= count || from == to) {
      return unusable(fmt::format("a direction from datacenter {} to {} of {}", from, to, count));
    }
    const std::string name = datacenters[from] + " -> " + datacenters[to];
    if (!seen.insert({from, to}).second) return unusable("the direction " + name + " stands twice");
    TRY(during(direction.shape.check(), "checking the link " + name));
  }
  return {};
}

Result<Scenario> scenario_of(const cluster::Cluster& cluster, double byte_scale) {
  if (!(byte_scale >= 1)) {
    return unusable(fmt::format("byte_scale = {}: must be at least 1", byte_scale));
  }
  Scenario scenario;
  for (const cluster::Datacenter& datacenter : cluster.datacenters) {
    scenario.datacenters.push_back(datacenter.name);
  }
  const auto index = [&](const std::string& name) {
    const auto& names = scenario.datacenters;
    const auto at = std::find(names.begin(), names.end(), name);
    CHECK(at != names.end(), "a link to {}, which is no datacenter", name);
    return static_cast<int>(at - names.begin());
  };
  for (const cluster::WanLink& link : cluster.wan) {
    LinkShape shape{.delay = round_to_ns(link.one_way_latency),
                    .jitter = round_to_ns(link.jitter),
                    .loss = link.loss,
                    .loss_burst = link.loss_burst,
                    .node_pair_rate = link.node_pair_limit / byte_scale};
    if (link.path_limit) shape.path_rate = *link.path_limit / byte_scale;
    if (link.queue) shape.queue = *link.queue / byte_scale;
    if (link.tcp_window) shape.tcp_window = scaled_window(*link.tcp_window, byte_scale);
    if (!link.rate_trace.empty()) {
      shape.trace = TRY(cluster::read_rate_trace(link.rate_trace)).scaled(1 / byte_scale);
    }
    const int a = index(link.between[0]), b = index(link.between[1]);
    scenario.directions.push_back({a, b, shape});
    scenario.directions.push_back({b, a, shape});
  }
  TRY(scenario.check());
  return scenario;
}

}  // namespace tombolo::wanem
