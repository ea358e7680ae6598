// The progress line of `tombolo train` on stderr: loss, tokens/s, iteration time, time to go.
//
// On a terminal one line that is written over; elsewhere a line now and then, so that logs stay
// short.
#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "base/clock.h"
#include "perform/observe/progress_tracker.h"

namespace tombolo::command {

// "step 12/60  loss 2.713  6.1 k tokens/s  672 ms/iteration  33 s to go".
std::string progress_text(const observe::Progress& progress);

// "[#####.....]": width characters between the brackets.
std::string progress_bar(int64_t done, int64_t all, int width);

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

// How far a search is: a line on a terminal's stderr, written over and gone at the end; nothing
// elsewhere.
class SearchBar {
 public:
  SearchBar();
  ~SearchBar();
  void show(int64_t done, int64_t all);

 private:
  const bool terminal_;
  bool shown_ = false;
};

// That a command is at work, where it has said nothing for two seconds: a line on a terminal's stderr,
// gone before anything else is written to stdout or stderr; nothing elsewhere.
//
// While it lives it stands between std::cout, std::cerr and their buffers. A line that another has
// begun and not ended (a SearchBar) is left alone.
class WaitLine {
 public:
  explicit WaitLine(const std::string& what);  // "tombolo reproduce"
  ~WaitLine();
  WaitLine(const WaitLine&) = delete;
  WaitLine& operator=(const WaitLine&) = delete;

 private:
  class Shown;
  std::unique_ptr<Shown> shown_;
};

}  // namespace tombolo::command
