// Time, threads and what they wait for, passed in so that tests can bring their own: production
// takes the machine's (SystemClock), an ocean lets one thread run at a time, and time passes there
// when all of them wait.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "base/check.h"
#include "base/time.h"

namespace tombolo {

inline constexpr SimTime kNever{INT64_MAX};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual SimTime now() const = 0;  // since an origin common to all ranks of this host
  virtual void sleep_until(SimTime instant) = 0;  // returns at or after the instant
};

// What threads wait for.
class Signal {
 public:
  virtual ~Signal() = default;
  // Until notify_all() or the instant, or for no reason: the caller looks again.
  virtual void wait(std::unique_lock<std::mutex>& lock, SimTime until) = 0;
  virtual void notify_all() = 0;
};

// One that runs. Its destructor waits for its end.
class Thread {
 public:
  virtual ~Thread() = default;
};

class Threads : public Clock {
 public:
  virtual std::unique_ptr<Thread> start(std::function<void()> body) = 0;
  virtual std::unique_ptr<Signal> signal() = 0;

  // Waits until it holds, or the instant; whether it holds.
  template <typename Condition>
  bool await(Signal& signal, std::unique_lock<std::mutex>& lock, SimTime until,
             const Condition& holds) const {
    while (!holds()) {
      if (now() >= until) return false;
      signal.wait(lock, until);
    }
    return true;
  }
};

// CLOCK_BOOTTIME: the same origin in every process of this host; never steps back, and goes on
// while the host is suspended, so that a lease is over for its holder when it is for everybody
// else.
class SystemClock : public Threads {
 public:
  SimTime now() const override;
  void sleep_until(SimTime instant) override;
  std::unique_ptr<Thread> start(std::function<void()> body) override;
  std::unique_ptr<Signal> signal() override;
};

// Moves only when told to, or when somebody sleeps. Its threads are the machine's, and any of them
// may ask for the time while another one sleeps.
class ManualClock : public SystemClock {
 public:
  SimTime now() const override { return now_; }
  void sleep_until(SimTime instant) override {
    SimTime before = now_;
    while (before < instant && !now_.compare_exchange_weak(before, instant)) {
    }
  }
  void advance(SimDuration by) {
    CHECK(by.ns >= 0, "a clock that steps back by {} ns", -by.ns);
    SimTime before = now_;
    while (!now_.compare_exchange_weak(before, before + by)) {
    }
  }

 private:
  std::atomic<SimTime> now_{SimTime{}};
};

}  // namespace tombolo
