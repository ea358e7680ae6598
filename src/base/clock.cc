#include "base/clock.h"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <thread>

namespace tombolo {
namespace {

class SystemSignal : public Signal {
 public:
  explicit SystemSignal(const Clock& clock) : clock_(clock) {}
  // The condition's clock and ours run at the same pace; a far instant is cut so that the sum
  // cannot overflow.
  void wait(std::unique_lock<std::mutex>& lock, SimTime until) override {
    constexpr int64_t kHour = 3'600'000'000'000;
    const int64_t now = clock_.now().ns;
    if (until.ns <= now) return;
    const std::chrono::nanoseconds span(until.ns - now > kHour ? kHour : until.ns - now);
    changed_.wait_until(lock, std::chrono::steady_clock::now() + span);
  }
  void notify_all() override { changed_.notify_all(); }

 private:
  const Clock& clock_;
  std::condition_variable changed_;
};

class SystemThread : public Thread {
 public:
  explicit SystemThread(std::function<void()> body) : thread_(std::move(body)) {}
  ~SystemThread() override { thread_.join(); }

 private:
  std::thread thread_;
};

}  // namespace

SimTime SystemClock::now() const {
  timespec t{};
  clock_gettime(CLOCK_BOOTTIME, &t);
  return {t.tv_sec * 1'000'000'000 + t.tv_nsec};
}

void SystemClock::sleep_until(SimTime instant) {
  const timespec t{static_cast<time_t>(instant.ns / 1'000'000'000),
                   static_cast<long>(instant.ns % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &t, nullptr) == EINTR) {
  }
}

std::unique_ptr<Thread> SystemClock::start(std::function<void()> body) {
  return std::make_unique<SystemThread>(std::move(body));
}

std::unique_ptr<Signal> SystemClock::signal() { return std::make_unique<SystemSignal>(*this); }

}  // namespace tombolo
