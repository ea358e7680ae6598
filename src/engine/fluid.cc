#include "engine/fluid.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tombolo::engine {
namespace {

// The one place where a rate becomes a span. Nothing if the flow would need over 290 years.
std::optional<SimDuration> time_to_drain(Bytes left, BytesPerSecond rate) {
  if (left.value <= 0) return SimDuration{0};
  const double exact = left.value * 1e9 / rate.value;
  if (!(exact < 9.2e18)) return std::nullopt;
  return SimDuration{static_cast<int64_t>(std::ceil(exact - exact * 0x1.0p-50))};
}

}  // namespace

FluidNetwork::FluidNetwork(std::vector<Link> links)
    : links_(std::move(links)), on_link_(links_.size()), delivered_(links_.size()) {}

FlowId FluidNetwork::start(SimTime now, Bytes bytes, Flow flow) {
  CHECK(bytes.value >= 0 && std::isfinite(bytes.value), "a flow of {} bytes", bytes.value);
  for (const uint32_t link : flow.links) {
    CHECK(link < links_.size(), "link {} of {}", link, links_.size());
  }
  advance(now);
  const FlowId id = next_id_++;
  const auto entry = flows_.emplace(id, Active{std::move(flow), bytes, bytes, now, {}, {}}).first;
  const std::vector<uint32_t>& links = entry->second.flow.links;
  for (const uint32_t link : links) on_link_[link].push_back(id);
  std::vector<FlowId> met = meeting(links);
  if (links.empty()) met.push_back(id);
  solve(std::move(met), now);
  return id;
}

std::optional<SimTime> FluidNetwork::next_completion() const {
  if (!finished_.empty()) return now_;
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
}

std::vector<Completion> FluidNetwork::finish(SimTime now) {
  advance(now);
  return std::exchange(finished_, {});
}

BytesPerSecond FluidNetwork::rate(FlowId flow) const {
  const auto found = flows_.find(flow);
  return found == flows_.end() ? BytesPerSecond{} : found->second.rate;
}

Bytes FluidNetwork::delivered(uint32_t link) const {
  CHECK(link < delivered_.size(), "link {} of {}", link, delivered_.size());
  return delivered_[link];
}

// Lets flows end one instant after the other, since each end changes the rates of those who stay.
void FluidNetwork::advance(SimTime now) {
  CHECK(now >= now_, "the network is at {} ns, not {} ns", now_.ns, now.ns);
  while (!due_.empty() && due_.begin()->first <= now) {
    const SimTime instant = due_.begin()->first;
    std::vector<uint32_t> freed;
    while (!due_.empty() && due_.begin()->first == instant) {
      const FlowId id = due_.begin()->second;
      const std::vector<uint32_t>& links = flows_.at(id).flow.links;
      freed.insert(freed.end(), links.begin(), links.end());
      end(id);
      finished_.push_back({id, instant});
    }
    solve(meeting(freed), instant);
  }
  now_ = now;
}

void FluidNetwork::end(FlowId id) {
  const Active& active = flows_.at(id);
  for (const uint32_t link : active.flow.links) {
    std::vector<FlowId>& here = on_link_[link];
    here.erase(std::find(here.begin(), here.end(), id));
    delivered_[link] += active.bytes;
  }
  due_.erase({*active.due, id});
  flows_.erase(id);
}

// All flows that share a link with these links' flows, directly or through others, oldest first.
std::vector<FlowId> FluidNetwork::meeting(const std::vector<uint32_t>& links) const {
  std::set<uint32_t> seen(links.begin(), links.end());
  std::set<FlowId> met;
  std::vector<uint32_t> open(seen.begin(), seen.end());
  while (!open.empty()) {
    const uint32_t link = open.back();
    open.pop_back();
    for (const FlowId id : on_link_[link]) {
      if (!met.insert(id).second) continue;
      for (const uint32_t next : flows_.at(id).flow.links) {
        if (seen.insert(next).second) open.push_back(next);
      }
    }
  }
  return {met.begin(), met.end()};
}

void FluidNetwork::solve(std::vector<FlowId> ids, SimTime now) {
  // fair_shares looks at all links it is given; hand it those of these flows, numbered anew.
  std::unordered_map<uint32_t, uint32_t> number;
  std::vector<Link> links;
  std::vector<Flow> flows;
  flows.reserve(ids.size());
  for (const FlowId id : ids) {
    Flow flow = flows_.at(id).flow;
    for (uint32_t& link : flow.links) {
      const auto [entry, fresh] = number.emplace(link, static_cast<uint32_t>(links.size()));
      if (fresh) links.push_back(links_[link]);
      link = entry->second;
    }
    flows.push_back(std::move(flow));
  }
  const std::vector<BytesPerSecond> rates = fair_shares(flows, links);
  for (size_t i = 0; i < ids.size(); ++i) set_rate(ids[i], rates[i], now);
}

void FluidNetwork::set_rate(FlowId id, BytesPerSecond rate, SimTime now) {
  Active& active = flows_.at(id);
  // A flow whose rate stays is left alone: strangers come and go without a rounding error for it.
  if (rate == active.rate && active.due) return;
  const Bytes gone = active.rate * seconds(now - active.since);
  active.left = {std::max(0.0, active.left.value - gone.value)};
  active.since = now;
  active.rate = rate;
  if (active.due) due_.erase({*active.due, id});
  active.due.reset();
  if (const auto span = time_to_drain(active.left, rate)) {
    active.due = now + *span;
    due_.emplace(*active.due, id);
  }
}

}  // namespace tombolo::engine
