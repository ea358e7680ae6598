// Time, threads and what they wait for, passed in so that tests can replace them. Production uses
// the machine's (SystemClock). The tests' simulated network runs one thread at a time and advances
// time when all threads wait.
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
  // Returns after notify_all(), at the instant, or spuriously: the caller checks its condition
  // again.
  virtual void wait(std::unique_lock<std::mutex>& lock, SimTime until) = 0;
  virtual void notify_all() = 0;
};

// A running thread. Its destructor waits for its end.
class Thread {
 public:
  virtual ~Thread() = default;
};

class Threads : public Clock {
 public:
  virtual std::unique_ptr<Thread> start(std::function<void()> body) = 0;
  virtual std::unique_ptr<Signal> signal() = 0;

  // Waits until the condition holds or the instant is reached; returns whether it holds.
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

// CLOCK_BOOTTIME: the same origin in every process of this host. It never steps back, and it keeps
// counting while the host is suspended, so that a lease ends for its holder when it ends for all
// other processes.
class SystemClock : public Threads {
 public:
  SimTime now() const override;
  void sleep_until(SimTime instant) override;
  std::unique_ptr<Thread> start(std::function<void()> body) override;
  std::unique_ptr<Signal> signal() override;
};

// Moves only when told to, or when a thread sleeps. Its threads are the machine's, and any of them
// may read the time while another one sleeps.
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
