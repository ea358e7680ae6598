// The progress line of `tombolo train` on stderr: loss, tokens/s, iteration time, time to go.
//
// On a terminal one line that is overwritten; elsewhere a line now and then, so that logs stay
// short.
#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "base/clock.h"
#include "perform/observe/progress_tracker.h"

namespace tombolo::perform_commands {

// "step 12/60  loss 2.713  6.1 k tokens/s  672 ms/iteration  33 s to go".
std::string progress_text(const observe::Progress& progress);

class ProgressLine {
 public:
  ProgressLine(std::ostream& out, bool terminal, const Clock& clock)
      : out_(out), terminal_(terminal), clock_(clock) {}

  void show(const observe::Progress& progress);
  // A message that must not run into the line.
  void note(const std::string& text);
  void finish();  // what comes next begins on a fresh line

 private:
  std::ostream& out_;
  const bool terminal_;
  const Clock& clock_;
  bool open_ = false;  // the cursor stands behind an unfinished line
  std::optional<SimTime> shown_;
};

}  // namespace tombolo::perform_commands
