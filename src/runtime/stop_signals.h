// SIGINT and SIGTERM as a flag, for as long as this object lives. A second one ends the program at
// once. At most one object at a time.
#pragma once

#include <signal.h>

#include <atomic>

namespace tombolo::runtime {

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  const std::atomic<bool>& flag() const;

 private:
  struct sigaction before_int_ {};
  struct sigaction before_term_ {};
};

}  // namespace tombolo::runtime
