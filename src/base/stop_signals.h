// SIGINT, SIGTERM and SIGHUP as a flag, for as long as this object lives. A second signal ends the
// program at once, unless it is to be ignored: external launchers send several, and kill the program
// when they lose patience. A second SIGHUP never ends it: when a terminal closes, kernel, shell and
// supervisor send one each. Where SIGHUP is ignored, as nohup wants it, it stays so. At most one
// object at a time.
#pragma once

#include <signal.h>

#include <atomic>

namespace tombolo {

enum class SecondSignal { kEnds, kIgnored };

// Whether nohup, or the parent process, wants this program to outlive its terminal.
bool outlives_terminal();

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
  struct sigaction before_hup_ {};
};

}  // namespace tombolo
