#include "base/stop_signals.h"

#include "base/check.h"

namespace tombolo {
namespace {

std::atomic<bool> alive{false};  // an object is
std::atomic<bool> stopped{false};
std::atomic<bool> second_ends{true};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not wait for a lock");

void on_signal(int number) {
  if (!stopped.exchange(true) || !second_ends || number == SIGHUP) return;
  signal(number, SIG_DFL);
  raise(number);
}

}  // namespace

bool outlives_terminal() {
  struct sigaction now {};
  return sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

StopSignals::StopSignals(SecondSignal second) {
  CHECK(!alive.exchange(true), "another object waits for the signals already");
  stopped = false;
  second_ends = second == SecondSignal::kEnds;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_int_);
  sigaction(SIGTERM, &action, &before_term_);
  sigaction(SIGHUP, outlives_terminal() ? nullptr : &action, &before_hup_);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
  sigaction(SIGHUP, &before_hup_, nullptr);
  alive = false;
}

const std::atomic<bool>& StopSignals::flag() const { return stopped; }

}  // namespace tombolo
