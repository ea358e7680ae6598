// How far a command is, on a terminal's stderr.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ui/command/caller.h"

namespace tombolo::command {

// "[#####.....]": width characters between the brackets.
std::string progress_bar(int64_t done, int64_t all, int width);

// How far a search is: a line on a terminal's stderr, written over and gone at the end; nothing
// elsewhere. A Caller hears of it instead (caller.h).
class SearchBar {
 public:
  SearchBar();
  ~SearchBar();
  void show(int64_t done, int64_t all);

 private:
  Caller* const caller_;
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
