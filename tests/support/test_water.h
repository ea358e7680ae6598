// What links are sailed over in tests: connections that exist only in numbers, and an agenda.
#pragma once

#include <functional>
#include <queue>

#include "base/random.h"
#include "base/time.h"

namespace tombolo::link {

// What happens when, in the order of (instant, sequence).
class Agenda {
 public:
  void at(SimTime when, std::function<void()> what) {
    queue_.push({when, sequence_++, std::move(what)});
  }
  SimTime now() const { return now_; }
  bool step() {
    if (queue_.empty()) return false;
    Entry entry = queue_.top();
    queue_.pop();
    now_ = entry.when;
    entry.what();
    return true;
  }

 private:
  struct Entry {
    SimTime when;
    uint64_t sequence;
    std::function<void()> what;
    bool operator<(const Entry& other) const {
      return std::pair(when, sequence) > std::pair(other.when, other.sequence);
    }
  };
  SimTime now_;
  uint64_t sequence_ = 0;
  std::priority_queue<Entry> queue_;
};

inline SimDuration milliseconds(double ms) { return {static_cast<int64_t>(ms * 1e6)}; }

// One direction of one connection: a rate, a delay, and now and then a pause in which nothing
// arrives. What arrives does so in order.
struct Water {
  BytesPerSecond rate;
  SimDuration delay;
  double stalls = 0;  // probability per frame
  SimTime free;       // when the next frame may depart

  SimTime arrival(SimTime now, size_t bytes, Random& random) {
    free = std::max(free, now) + round_to_ns(Bytes{static_cast<double>(bytes)} / rate);
    if (random.uniform() < stalls) free = free + milliseconds(200);
    return free + delay;
  }
};

}  // namespace tombolo::link
