#include "steer/prefill/free_windows.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"

namespace tombolo::prefill {

FreeWindows::FreeWindows(const Busy& busy, SimDuration period, SimDuration guard,
                         SimDuration usable_min)
    : gaps_(gaps_of(busy, period)),
      period_(period),
      guard_(guard),
      usable_min_(usable_min),
      always_free_(busy.empty()) {
  CHECK(period.ns > 0 && guard.ns >= 0 && usable_min.ns > 0,
        "a period of {} ns with a guard of {} for layers of {}", period.ns, guard.ns,
        usable_min.ns);
  covered_until_ = {-period.ns};
}

void FreeWindows::append(Span window, SimTime now) {
  window.start = std::max(window.start, now);
  if (window.length() >= usable_min_) windows_.push_back(window);
}

void FreeWindows::extend(SimTime now, SimTime until) {
  if (always_free_) {
    append({now, kNever}, now);
    covered_until_ = kNever;
    return;
  }
  // Skips periods that passed without a call; the one before this may reach into it.
  const int64_t since = now.ns - origin_.ns;
  const int64_t current = since >= 0 ? since / period_.ns : -((-since - 1) / period_.ns) - 1;
  if (next_period_ < current - 1) {
    next_period_ = current - 1;
    next_gap_ = 0;
  }
  while (covered_until_ < until) {
    const SimTime begin = origin_ + period_ * next_period_;
    if (next_gap_ < gaps_.size()) {
      const Span& gap = gaps_[next_gap_++];
      append({begin + SimDuration{gap.start.ns}, begin + SimDuration{gap.end.ns} - guard_}, now);
      covered_until_ = begin + SimDuration{gap.end.ns};
    } else {
      next_gap_ = 0;
      ++next_period_;
      covered_until_ = std::max(covered_until_, begin + period_);
    }
  }
}

void FreeWindows::forget(SimTime now) {
  while (head_ < windows_.size() && windows_[head_].end <= now) ++head_;
  if (head_ < 64 || head_ * 2 < windows_.size()) return;
  windows_.erase(windows_.begin(), windows_.begin() + static_cast<ptrdiff_t>(head_));
  head_ = 0;
}

const Span* FreeWindows::first_after(SimTime t) const {
  // Mostly it is one of the first.
  const Span* from = windows_.data() + head_;
  ptrdiff_t last = 4;
  for (; end() - from > last && from[last - 1].end <= t; last *= 2) from += last;
  return std::upper_bound(from, end() - from > last ? from + last : end(), t,
                          [](SimTime at, const Span& window) { return at < window.end; });
}

bool FreeWindows::take(SimTime start, SimTime end) {
  CHECK(start <= end, "a span that ends {} ns before it starts", start.ns - end.ns);
  const auto i = static_cast<size_t>(first_after(start) - windows_.data());
  if (i == windows_.size() || windows_[i].start > start || windows_[i].end < end) return false;
  const Span before{windows_[i].start, start}, after{end, windows_[i].end};
  const bool keep_before = before.length() >= usable_min_;
  const bool keep_after = after.length() >= usable_min_;
  const auto here = windows_.begin() + static_cast<ptrdiff_t>(i);
  if (keep_before && keep_after) {
    *here = after;
    windows_.insert(here, before);
  } else if (keep_before || keep_after) {
    *here = keep_before ? before : after;
  } else {
    windows_.erase(here);
  }
  taken_until_ = std::max(taken_until_, end);
  return true;
}

void FreeWindows::block(SimTime start, SimTime end) {
  std::vector<Span> overlaps;
  for (const Span* window = first_after(start); window != this->end(); ++window) {
    if (window->start >= end) break;
    overlaps.push_back({std::max(start, window->start), std::min(end, window->end)});
  }
  for (const Span& each : overlaps) take(each.start, each.end);
}

void FreeWindows::remake(SimTime now, SimDuration later, SimDuration guard) {
  const SimTime until = covered_until_;
  origin_ = origin_ + later;
  guard_ = guard;
  windows_.clear();
  head_ = 0;
  taken_until_ = now;
  next_period_ = -1;
  next_gap_ = 0;
  covered_until_ = origin_ - period_;
  extend(now, std::max(until, now));
}

}  // namespace tombolo::prefill
