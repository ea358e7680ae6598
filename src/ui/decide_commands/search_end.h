// When a search has to answer with what it has: at a time limit, or at the first Ctrl-C, SIGTERM or
// SIGHUP; a second one ends the program. At most one object at a time.
#pragma once

#include <chrono>

#include "base/units.h"
#include "perform/run/stop_signals.h"

namespace tombolo::decide_commands {

class SearchEnd {
 public:
  explicit SearchEnd(Seconds limit) : limit_(limit) {}  // from now on; 0: none

  // At a share of the limit: for a part of the search, so that others have their turn.
  bool is_here(double share = 1) const {
    if (signals_.flag()) return true;
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - begin_;
    return limit_.value > 0 && since.count() >= share * limit_.value;
  }

 private:
  const Seconds limit_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const run::StopSignals signals_;
};

}  // namespace tombolo::decide_commands
