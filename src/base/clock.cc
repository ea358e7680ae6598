#include "base/clock.h"

#include <cerrno>
#include <ctime>

namespace tombolo {

SimTime SystemClock::now() const {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return {t.tv_sec * 1'000'000'000 + t.tv_nsec};
}

void SystemClock::sleep_until(SimTime instant) {
  const timespec t{static_cast<time_t>(instant.ns / 1'000'000'000),
                   static_cast<long>(instant.ns % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
  }
}

}  // namespace tombolo
