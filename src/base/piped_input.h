// Inputs that can be read only once: standard input, pipes, FIFOs.
//
// Readers look at a file more than once: first at what kind it is, then at its contents. What comes
// through a pipe is therefore kept in memory when it is first opened, under its name and until the
// process ends, and from then on is read as a plain file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tombolo {

// As open(2) for reading, at the beginning; -1 with errno on failure. "-" is standard input. Of an
// input that can be read only once, at most `limit` + 1 bytes are kept.
int open_input(const std::string& path, int64_t limit);

// A text that stands in for a file of this name, for readers on this thread and as long as the object lives: a job from
// another program's memory. No file should have this name; "<job>" is a good one.
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

// Whether an input lies in no folder ("-", /dev/fd/63), so that relative names in it are relative to
// the working folder.
bool has_no_folder(const std::string& path);

}  // namespace tombolo
