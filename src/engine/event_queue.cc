#include "engine/event_queue.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::engine {
namespace {

// std::push_heap keeps the greatest in front; we want the earliest.
bool later(const Event& a, const Event& b) {
  return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
}

}  // namespace

void EventQueue::push(SimTime time, uint32_t kind, uint64_t subject) {
  CHECK(time >= now_, "event kind {} for subject {} at {} ns, but it is {} ns already", kind,
        subject, time.ns, now_.ns);
  heap_.push_back({time, pushed_++, kind, subject});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

Event EventQueue::pop() {
  CHECK(!heap_.empty(), "pop() on an empty event queue");
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const Event event = heap_.back();
  heap_.pop_back();
  now_ = event.time;
  ++popped_;
  fingerprint_.add(static_cast<uint64_t>(event.time.ns));
  fingerprint_.add(event.kind);
  fingerprint_.add(event.subject);
  return event;
}

SimTime EventQueue::next_time() const {
  CHECK(!heap_.empty(), "next_time() of an empty event queue");
  return heap_.front().time;
}

}  // namespace tombolo::engine
