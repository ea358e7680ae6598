#include "predict/engine/fluid.h"

#include <algorithm>
#include <cmath>
#include <functional>

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
    : links_(std::move(links)),
      solver_(links_),
      on_link_(links_.size()),
      delivered_(links_.size()),
      link_seen_(links_.size()) {}

FlowId FluidNetwork::start(SimTime now, Bytes bytes, Flow flow) {
  CHECK(bytes.value >= 0 && std::isfinite(bytes.value), "a flow of {} bytes", bytes.value);
  for (const uint32_t link : flow.links) {
    CHECK(link < links_.size(), "link {} of {}", link, links_.size());
  }
  advance(now);
  const FlowId id = next_id_++;
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  slot_of_.emplace(id, slot);
  for (const uint32_t link : flow.links) {
    on_link_[link].push_back(slot);
    changed_.push_back(link);
  }
  if (flow.links.empty()) alone_.push_back(slot);
  slots_[slot] = {id, std::move(flow), bytes, bytes, now, {}, {}};
  return id;
}

std::optional<SimTime> FluidNetwork::next_completion() {
  if (!finished_.empty()) return now_;
  settle();
  const Due* first = first_due();
  if (first == nullptr) return std::nullopt;
  return first->time;
}

std::vector<Completion> FluidNetwork::finish(SimTime now) {
  if (now == now_) settle();
  advance(now);
  return std::exchange(finished_, {});
}

void FluidNetwork::set_capacity(SimTime now, uint32_t link, BytesPerSecond capacity) {
  CHECK(link < links_.size(), "link {} of {}", link, links_.size());
  CHECK(capacity.value >= 0, "link {} of {} B/s", link, capacity.value);
  advance(now);
  links_[link].capacity = capacity;
  changed_.push_back(link);
}

BytesPerSecond FluidNetwork::rate(FlowId flow) {
  settle();
  const auto found = slot_of_.find(flow);
  return found == slot_of_.end() ? BytesPerSecond{} : slots_[found->second].rate;
}

Bytes FluidNetwork::delivered(uint32_t link) const {
  CHECK(link < delivered_.size(), "link {} of {}", link, delivered_.size());
  return delivered_[link];
}

// Lets flows end one instant after the other, since each end changes the rates of those who stay.
void FluidNetwork::advance(SimTime now) {
  CHECK(now >= now_, "the network is at {} ns, not {} ns", now_.ns, now.ns);
  while (true) {
    if (now > now_) settle();
    const Due* first = first_due();
    if (first == nullptr || first->time > now) break;
    now_ = first->time;
    do {
      end(first->slot);
      first = first_due();
    } while (first != nullptr && first->time == now_);
  }
  now_ = now;
}

void FluidNetwork::end(uint32_t slot) {
  Active& active = slots_[slot];
  for (size_t l = 0; l < active.flow.links.size(); ++l) {
    const uint32_t link = active.flow.links[l];
    std::vector<uint32_t>& here = on_link_[link];
    *std::find(here.begin(), here.end(), slot) = here.back();
    here.pop_back();
    delivered_[link] += active.bytes * active.flow.share_on(l);
    changed_.push_back(link);
  }
  finished_.push_back({active.id, now_});
  slot_of_.erase(active.id);
  active.due.reset();
  free_.push_back(slot);
}

// A heap holds what was due once; whatever is due no longer goes when it comes to the top.
const FluidNetwork::Due* FluidNetwork::first_due() {
  while (!due_.empty()) {
    const Due& first = due_.front();
    const Active& active = slots_[first.slot];
    if (active.id == first.id && active.due == first.time) return &first;
    std::pop_heap(due_.begin(), due_.end(), std::greater<>());
    due_.pop_back();
  }
  return nullptr;
}

void FluidNetwork::settle() {
  for (const uint32_t slot : alone_) {
    met_.assign(1, slot);
    solve();
  }
  alone_.clear();
  ++search_;
  for (const uint32_t link : changed_) {
    if (link_seen_[link] == search_) continue;
    meet(link);
    solve();
  }
  changed_.clear();
}

void FluidNetwork::meet(uint32_t link) {
  met_.clear();
  link_seen_[link] = search_;
  open_.assign(1, link);
  while (!open_.empty()) {
    const uint32_t here = open_.back();
    open_.pop_back();
    for (const uint32_t slot : on_link_[here]) {
      Active& active = slots_[slot];
      if (std::exchange(active.seen, search_) == search_) continue;
      met_.push_back(slot);
      for (const uint32_t next : active.flow.links) {
        if (std::exchange(link_seen_[next], search_) != search_) open_.push_back(next);
      }
    }
  }
  // Oldest first, so that sums do not hang on the order in which they were met.
  std::sort(met_.begin(), met_.end(),
            [&](uint32_t a, uint32_t b) { return slots_[a].id < slots_[b].id; });
}

void FluidNetwork::solve() {
  flows_met_.clear();
  for (const uint32_t slot : met_) flows_met_.push_back(&slots_[slot].flow);
  const std::span<const BytesPerSecond> rates = solver_.solve(flows_met_);
  for (size_t i = 0; i < met_.size(); ++i) set_rate(slots_[met_[i]], rates[i]);
}

void FluidNetwork::set_rate(Active& active, BytesPerSecond rate) {
  // A flow whose rate stays is left alone: unrelated flows add no rounding error to it.
  if (rate == active.rate && active.due) return;
  const Bytes gone = active.rate * seconds(now_ - active.since);
  active.left = {std::max(0.0, active.left.value - gone.value)};
  active.since = now_;
  active.rate = rate;
  active.due.reset();
  if (const auto span = time_to_drain(active.left, rate)) {
    active.due = now_ + *span;
    due_.push_back({*active.due, active.id, static_cast<uint32_t>(&active - slots_.data())});
    std::push_heap(due_.begin(), due_.end(), std::greater<>());
    // Flows whose rates change often leave more behind than comes to the top.
    if (due_.size() > 64 + 4 * slot_of_.size()) {
      std::erase_if(due_, [&](const Due& due) {
        return slots_[due.slot].id != due.id || slots_[due.slot].due != due.time;
      });
      std::make_heap(due_.begin(), due_.end(), std::greater<>());
    }
  }
}

}  // namespace tombolo::engine
