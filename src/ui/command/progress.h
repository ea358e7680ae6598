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
// elsewhere. A Caller receives it instead (caller.h).
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

// Shows that a command is at work if it has printed nothing for two seconds: a line on a terminal's
// stderr, removed before anything else is written to stdout or stderr; nothing elsewhere.
//
// While it lives it sits between std::cout, std::cerr and their buffers. An unfinished line of another
// writer (a SearchBar) is left alone.
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
