// Inputs that come only once: standard input, pipes, FIFOs.
//
// Who reads a file looks at it more than once: what it is, then what it says. What comes through a
// pipe is therefore kept in memory when it is first opened, under its name and as long as the process
// lives, and is a plain file from then on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tombolo {

// As open(2) for reading, at the beginning; -1 with errno where that fails. "-" is standard input. Of
// what comes only once at most `limit` bytes and one more are kept.
int open_input(const std::string& path, int64_t limit);

// A text that stands for a file of this name, for readers on this thread and as long as the object lives: a job of another
// program's memory. The name should be none of a file, as "<job>" is.
class GivenInput {
 public:
  GivenInput(std::string name, std::string_view text);
  ~GivenInput();
  GivenInput(const GivenInput&) = delete;
  GivenInput& operator=(const GivenInput&) = delete;

 private:
  const std::string name_;
  int memory_ = -1;
};

// What does not lie in a folder, so that names in it are those of the working folder: "-", /dev/fd/63.
bool has_no_folder(const std::string& path);

}  // namespace tombolo
