#include "predict/engine/event_queue.h"

#include <algorithm>
#include <bit>

namespace tombolo::engine {
namespace {

// A slot that was once this full gives its memory back, so that what waits once in every slot does
// not stay allocated in all of them.
constexpr size_t kKeptCapacity = 128;

bool earlier(const Event& a, const Event& b) { return a.time < b.time; }

}  // namespace

size_t EventQueue::first_wheel() const {
  size_t w = 0;
  while (wheels_[w].filled == 0) ++w;
  return w;
}

void EventQueue::refill() {
  Wheel& wheel = wheels_[first_wheel()];
  const auto slot = static_cast<size_t>(std::countr_zero(wheel.filled));
  std::vector<Event> events;
  std::swap(events, wheel.slots[slot]);
  wheel.filled &= wheel.filled - 1;
  const int64_t earliest = std::min_element(events.begin(), events.end(), earlier)->time.ns;
  base_ = earliest & -int64_t{kSlots};
  for (const Event& event : events) file(event);
  if (events.capacity() > kKeptCapacity || !wheel.slots[slot].empty()) return;
  events.clear();
  std::swap(events, wheel.slots[slot]);
}

Event EventQueue::pop() {
  CHECK(size_ > 0, "pop() on an empty event queue");
  if (wheels_[0].filled == 0) refill();
  const auto slot = static_cast<size_t>(std::countr_zero(wheels_[0].filled));
  std::vector<Event>& events = wheels_[0].slots[slot];
  const Event event = events[taken_[slot]++];
  if (taken_[slot] == events.size()) {
    events.clear();
    taken_[slot] = 0;
    wheels_[0].filled &= wheels_[0].filled - 1;
    if (events.capacity() > kKeptCapacity) events = {};
  }
  --size_;
  now_ = event.time;
  ++popped_;
  fingerprint_.add(static_cast<uint64_t>(event.time.ns));
  fingerprint_.add(event.kind);
  fingerprint_.add(event.subject);
  return event;
}

SimTime EventQueue::next_time() const {
  CHECK(size_ > 0, "next_time() of an empty event queue");
  const size_t w = first_wheel();
  const auto slot = static_cast<size_t>(std::countr_zero(wheels_[w].filled));
  const std::vector<Event>& events = wheels_[w].slots[slot];
  if (w == 0) return events[taken_[slot]].time;
  return std::min_element(events.begin(), events.end(), earlier)->time;
}

}  // namespace tombolo::engine
