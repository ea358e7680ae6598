// SIGINT and SIGTERM as a flag, for as long as this object lives. A second one ends the program at
// once, unless it is to be ignored: external launchers send several and lose patience by
// themselves. At most one object at a time.
#pragma once

#include <signal.h>

#include <atomic>

namespace tombolo::launch {

enum class SecondSignal { kEnds, kIgnored };

class StopSignals {
 public:
  explicit StopSignals(SecondSignal second = SecondSignal::kEnds);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  const std::atomic<bool>& flag() const;

 private:
  struct sigaction before_int_ {};
  struct sigaction before_term_ {};
};

}  // namespace tombolo::launch
