// When a search has to answer with what it has: at a time limit, or at the first Ctrl-C, SIGTERM or
// SIGHUP; a second one ends the program. In a program that calls a command as a function, signals
// are that program's: there an Interruption ends the search. Of the program `tombolo` at most one
// object at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>

#include "base/interruption.h"
#include "base/stop_signals.h"
#include "base/units.h"
#include "ui/command/caller.h"

namespace tombolo::decide_commands {

class SearchEnd {
 public:
  explicit SearchEnd(Seconds limit) : limit_(limit) {  // from now on; 0: none
    if (!command::Caller::of_this_thread()) signals_.emplace();
  }

  // At a share of the limit: for a part of the search, so that time is left for the others.
  bool is_here(double share = 1) const {
    return is_asked() || (limit_.value > 0 && elapsed() >= share * limit_.value);
  }

  // So much later what was begun ends as well, such as a simulation of the best so far.
  bool is_over() const {
    if (limit_.value > 0 && elapsed() >= limit_.value + kGrace.value) return true;
    if (!is_asked()) return false;
    double first = 0;
    const double now = elapsed();
    if (asked_at_.compare_exchange_strong(first, now)) return false;
    return now >= first + kGrace.value;
  }

 private:
  static constexpr Seconds kGrace{0.5};

  bool is_asked() const { return signals_ ? signals_->flag().load() : heeded_.asked(); }
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  const Seconds limit_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const Interruption::Heeded heeded_{Interruption::of_this_thread()};
  std::optional<StopSignals> signals_;
  mutable std::atomic<double> asked_at_{0};  // when it was first asked; 0: not yet
};

}  // namespace tombolo::decide_commands
