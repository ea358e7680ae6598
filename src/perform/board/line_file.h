// A file of one line per step, which can be taken back to an earlier step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tombolo::board {

// A line is in the file as a whole, or is cut off when the file is opened again. What happens in a
// power cut is left to the file system.
class LineFile {
 public:
  // Which step a line is about; nothing: it belongs to no step (a header) and stays.
  using StepOf = std::function<std::optional<int64_t>(std::string_view line)>;

  // Opens or creates it. An unfinished last line is dropped. Unusable if it cannot be written, or
  // has a line of more than 64 KiB.
  static Result<LineFile> open(const std::string& path, StepOf step_of);
  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&&) = delete;
  ~LineFile();

  // Of the last line that is about one; 0: none.
  int64_t last_step() const { return last_step_; }
  const std::string& first_line() const { return first_line_; }  // without its end; empty: none

  // Drops all lines from the first one that is about `step` or a later step. Cost: reads the file.
  Status rewind(int64_t step);
  // `line` without its end, about `step`, which is later than last_step(); 0: about none.
  Status append(std::string_view line, int64_t step);

 private:
  LineFile(std::string path, StepOf step_of, int fd);
  Error error(const char* doing) const;
  Status cut(std::optional<int64_t> from_step);

  std::string path_;
  StepOf step_of_;
  int fd_ = -1;
  int64_t last_step_ = 0;
  std::string first_line_;
};

}  // namespace tombolo::board
