// When one GPU is free for prefill: an ordered list of windows, period after period, without what
// was placed already.
//
// A window is a gap of training less the guard before the computation that ends it. The list is
// made as far as it is asked for, and windows in the past are forgotten. Windows in which not even
// the shortest layer fits are left out, so the first one can be used.
//
// Cost: finding a window O(log n) in those of the horizon, taking one O(n) moves of 16 bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "steer/prefill/bubble_windows.h"

namespace tombolo::prefill {

// What a search reads lies in one cache line.
class alignas(64) FreeWindows {
 public:
  // `usable_min`: the shortest layer. The first period begins at 0.
  FreeWindows(const Busy& busy, SimDuration period, SimDuration guard, SimDuration usable_min);

  // Forgets what has ended by `now` and makes windows up to `until`.
  void reach(SimTime now, SimTime until) {
    if (head_ < windows_.size() && windows_[head_].end <= now) forget(now);
    if (covered_until_ < until) extend(now, until);
  }
  SimDuration guard() const { return guard_; }
  // From this instant on nothing has been taken.
  SimTime taken_until() const { return taken_until_; }
  // No window before this instant is free, as far as windows were made.
  SimTime earliest() const {
    return head_ < windows_.size() ? windows_[head_].start : covered_until_;
  }
  // The first window that ends after `t`, and the end of the list.
  const Span* first_after(SimTime t) const;
  const Span* end() const { return windows_.data() + windows_.size(); }

  // Takes a span out and returns true if all of it was free; else takes nothing.
  bool take(SimTime start, SimTime end);
  // Takes those parts of a span that are free.
  void block(SimTime start, SimTime end);
  // From `now` on training is later than assumed by `later` (negative: earlier), and the guard is
  // replaced. Gives back all that was taken: the caller takes it again.
  void remake(SimTime now, SimDuration later, SimDuration guard);

 private:
  void forget(SimTime now);
  void extend(SimTime now, SimTime until);
  void append(Span window, SimTime now);

  std::vector<Span> gaps_;  // of a period
  SimDuration period_, guard_, usable_min_;
  bool always_free_ = false;
  SimTime origin_;            // of period 0
  int64_t next_period_ = -1;  // not made yet; that of -1 reaches into period 0
  size_t next_gap_ = 0;       // of it
  SimTime covered_until_;     // all windows that begin before it are made
  SimTime taken_until_;
  std::vector<Span> windows_;
  size_t head_ = 0;
};

}  // namespace tombolo::prefill
