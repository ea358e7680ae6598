// The time of day for code that waits, passed in so that tests can bring their own.
#pragma once

#include "base/check.h"
#include "base/time.h"

namespace tombolo {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual SimTime now() const = 0;  // since an origin common to all ranks of this host
  virtual void sleep_until(SimTime instant) = 0;  // returns at or after the instant
};

// CLOCK_MONOTONIC: the same origin in every process of this host, never steps back.
class SystemClock : public Clock {
 public:
  SimTime now() const override;
  void sleep_until(SimTime instant) override;
};

// Moves only when told to, or when somebody sleeps.
class ManualClock : public Clock {
 public:
  SimTime now() const override { return now_; }
  void sleep_until(SimTime instant) override {
    if (instant > now_) now_ = instant;
  }
  void advance(SimDuration by) {
    CHECK(by.ns >= 0, "a clock that steps back by {} ns", -by.ns);
    now_ = now_ + by;
  }

 private:
  SimTime now_;
};

}  // namespace tombolo
