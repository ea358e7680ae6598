// When a search has to answer with what it has: at a time limit, or at the first Ctrl-C, SIGTERM or
// SIGHUP; a second one ends the program. In a program that calls a command as a function, signals
// are that program's: there an Interruption ends the search. Of the program `tombolo` at most one
// object at a time.
#pragma once

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

  // At a share of the limit: for a part of the search, so that others have their turn.
  bool is_here(double share = 1) const {
    if (signals_ ? signals_->flag().load() : heeded_.asked()) return true;
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - begin_;
    return limit_.value > 0 && since.count() >= share * limit_.value;
  }

 private:
  const Seconds limit_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const Interruption::Heeded heeded_{Interruption::of_this_thread()};
  std::optional<StopSignals> signals_;
};

}  // namespace tombolo::decide_commands
