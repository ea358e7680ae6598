// An ocean: hosts, processes and threads in simulated time, driven by the code that runs outside.
//
// A thread is a stack of its own (fibre.h), and one runs at a time: each goes on until it waits (for
// a Signal, an instant, another thread's end), and then the ocean draws the next from those that can
// go on. When none can, time moves to the next instant that somebody waits for. So a run follows
// from its seed alone, hours take milliseconds, and a process can be killed wherever it waits.
//
// A killed process is never resumed: its stacks stay as they are until the test's own process ends.
// Use one forked process per seed.
//
// No clock of the ocean can be set: Waters::now() is what CLOCK_BOOTTIME is outside. Wall clocks of
// hosts can, and step; ocean_disk.h tells whether anybody reads them.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "support/fibre.h"

namespace tombolo::ocean {

class Ocean;
class Waters;

struct Process;

struct Sailor {
  std::function<void()> body;
  Process* process = nullptr;
  SimTime until = kNever;  // it waits for, at most
  bool ready = true;
  bool done = false;
  bool held = false;  // by its Thread
  Fibre fibre;
  std::set<Sailor*> joining;  // who wait for its end
};

// Something of a process that others see the end of, such as a socket.
class Belonging {
 public:
  virtual ~Belonging() = default;
  virtual void process_ended(bool silently) = 0;
};

struct Process {
  int pid = 0;
  int host = 0;
  bool alive = true;
  int status = 0;  // as wait() has it, once it is not
  std::vector<Belonging*> belongings;
  std::vector<std::function<void()>> at_end;
  std::unique_ptr<Waters> waters;
};

// What a process has of the ocean: its clock and its threads.
class Waters : public Threads {
 public:
  Waters(Ocean& ocean, Process& process) : ocean_(ocean), process_(process) {}
  SimTime now() const override;
  void sleep_until(SimTime instant) override;
  std::unique_ptr<Thread> start(std::function<void()> body) override;
  std::unique_ptr<Signal> signal() override;
  Ocean& ocean() { return ocean_; }
  Process& process() { return process_; }
  SimDuration clock_error() const;

 private:
  Ocean& ocean_;
  Process& process_;
};

// A bug that is planted: what should be CLOCK_BOOTTIME is the host's wall clock.
inline bool clocks_can_be_set = false;

// Who runs; nobody between two of them.
inline Sailor* self = nullptr;

class Ocean {
 public:
  explicit Ocean(uint64_t seed) : random_(Random(seed).stream("ocean")) {}

  SimTime now() const { return now_; }
  Random& random() { return random_; }

  // The body returns the exit code. It begins when the ocean gets to it.
  Process& start(int host, std::function<int(Waters&)> body) {
    processes_.push_back(std::make_unique<Process>());
    Process& process = *processes_.back();
    process.pid = static_cast<int>(processes_.size()) + 100;
    process.host = host;
    process.waters = std::make_unique<Waters>(*this, process);
    add(process, [this, &process, body = std::move(body)] {
      const int code = body(*process.waters);
      end(process, code << 8, false);
    });
    return process;
  }
  Process* find(int pid) {
    for (const auto& each : processes_) {
      if (each->pid == pid) return each.get();
    }
    return nullptr;
  }
  const std::vector<std::unique_ptr<Process>>& processes() const { return processes_; }

  // `status`: as wait() has it. Silently: its host is gone, and the kernel closes nothing.
  void end(Process& process, int status, bool silently) {
    if (!process.alive) return;
    process.alive = false;
    ended_ = true;
    process.status = status;
    for (Belonging* each : std::vector(process.belongings)) each->process_ended(silently);
    process.belongings.clear();
    for (const auto& each : process.at_end) each();
    process.at_end.clear();
    if (self && self->process == &process) park();
  }

  // The wall clock of a host, which is nobody's business: it is set by so much.
  void set_wall_clock(int host, SimDuration by) { wall_clocks_[host] += by; }
  SimDuration wall_clock_error(int host) const {
    const auto at = wall_clocks_.find(host);
    return at == wall_clocks_.end() ? SimDuration{} : at->second;
  }

  // Its threads do not run before that instant; its clock goes on.
  void suspend(int host, SimTime until) { suspended_[host] = until; }

  bool is_suspended(int host) const {
    const auto at = suspended_.find(host);
    return at != suspended_.end() && at->second > now_;
  }

  // Later, on the ocean's own thread.
  void at(SimTime instant, std::function<void()> what) {
    events_.emplace(std::pair(std::max(instant, now_), ++events_made_), std::move(what));
  }

  Sailor& add(Process& process, std::function<void()> body) {
    sailors_.push_back(std::make_unique<Sailor>());
    Sailor& sailor = *sailors_.back();
    sailor.process = &process;
    sailor.body = std::move(body);
    sailor.fibre.begin([&sailor] {
      sailor.body();
      sailor.done = true;
      for (Sailor* each : sailor.joining) each->ready = true;
    });
    return sailor;
  }

  // The calling sailor waits, at most until then. Who wakes it sets `ready`.
  void wait(SimTime until) {
    CHECK(self, "somebody who is not of the ocean waits");
    self->ready = false;
    self->until = until;
    self->fibre.pause();
    self->until = kNever;
  }

  // Until it holds, or nothing can happen any more. False: it does not hold.
  bool sail(const std::function<bool()>& over) {
    while (!over()) {
      if (Sailor* next = draw()) {
        self = next;
        next->fibre.go_on();
        self = nullptr;
        if (next->done || !next->process->alive || ended_) sort_out();
      } else if (!pass_time()) {
        return false;
      }
    }
    return true;
  }

 private:
  bool can_run(const Sailor& sailor) const {
    if (sailor.done || !sailor.process->alive) return false;
    const auto asleep = suspended_.find(sailor.process->host);
    return asleep == suspended_.end() || asleep->second <= now_;
  }
  Sailor* draw() {
    ready_.clear();
    for (const auto& each : sailors_) {
      if (each->ready && can_run(*each)) ready_.push_back(each.get());
    }
    return ready_.empty() ? nullptr : ready_[random_.below(ready_.size())];
  }
  bool pass_time() {
    SimTime next = events_.empty() ? kNever : events_.begin()->first.first;
    for (const auto& each : sailors_) {
      if (each->done || !each->process->alive) continue;
      const auto asleep = suspended_.find(each->process->host);
      const SimTime awake = asleep == suspended_.end() ? now_ : std::max(now_, asleep->second);
      if (each->ready || each->until < kNever)
        next = std::min(next, std::max(awake, each->ready ? now_ : each->until));
    }
    if (next == kNever) return false;
    now_ = std::max(now_, next);
    while (!events_.empty() && events_.begin()->first.first <= now_) {
      const auto what = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      what();
    }
    for (const auto& each : sailors_) {
      if (!each->ready && each->until <= now_) each->ready = true;
    }
    return true;
  }
  [[noreturn]] static void park() {
    while (true) self->fibre.pause();
  }
  // Those that never run again. Others may still know their names, and what is on their stacks.
  void sort_out() {
    ended_ = false;
    const auto is_left = [](const auto& each) { return !each->done && each->process->alive; };
    const auto gone = std::stable_partition(sailors_.begin(), sailors_.end(), is_left);
    for (auto at = gone; at != sailors_.end(); ++at) {
      if (!(*at)->done || (*at)->held) left_.push_back(std::move(*at));
    }
    sailors_.erase(gone, sailors_.end());
  }

  SimTime now_{1'000'000'000};
  Random random_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Sailor>> sailors_;
  std::vector<std::unique_ptr<Sailor>> left_;  // that never run again
  std::vector<Sailor*> ready_;                 // of the last draw
  bool ended_ = false;                         // a process, since they were sorted out
  std::map<std::pair<SimTime, uint64_t>, std::function<void()>> events_;
  uint64_t events_made_ = 0;
  std::map<int, SimTime> suspended_;        // by host
  std::map<int, SimDuration> wall_clocks_;  // by host: how far off
};

class OceanSignal : public Signal {
 public:
  explicit OceanSignal(Ocean& ocean) : ocean_(ocean) {}
  void wait(std::unique_lock<std::mutex>& lock, SimTime until) override {
    waiting_.insert(self);
    lock.unlock();
    ocean_.wait(until < kNever ? until - self->process->waters->clock_error() : kNever);
    lock.lock();
    waiting_.erase(self);
  }
  void notify_all() override {
    for (Sailor* each : waiting_) each->ready = true;
  }

 private:
  Ocean& ocean_;
  std::set<Sailor*> waiting_;
};

class OceanThread : public Thread {
 public:
  OceanThread(Ocean& ocean, Sailor& sailor) : ocean_(ocean), sailor_(sailor) {
    sailor_.held = true;
  }
  ~OceanThread() override {
    sailor_.joining.insert(self);
    while (!sailor_.done) ocean_.wait(kNever);
    sailor_.held = false;
  }

 private:
  Ocean& ocean_;
  Sailor& sailor_;
};

inline SimTime Waters::now() const { return ocean_.now() + clock_error(); }
inline SimDuration Waters::clock_error() const {
  return clocks_can_be_set ? ocean_.wall_clock_error(process_.host) : SimDuration{};
}
inline void Waters::sleep_until(SimTime instant) {
  instant = instant - clock_error();
  while (ocean_.now() < instant) ocean_.wait(instant);
}
inline std::unique_ptr<Thread> Waters::start(std::function<void()> body) {
  return std::make_unique<OceanThread>(ocean_, ocean_.add(process_, std::move(body)));
}
inline std::unique_ptr<Signal> Waters::signal() { return std::make_unique<OceanSignal>(ocean_); }

}  // namespace tombolo::ocean
