// A program other than `tombolo` that calls a command as a function, such as a Python interpreter. It receives through this
// what the program `tombolo` writes to stderr.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tombolo::command {

struct Caller {
  std::vector<std::string> notes;
  std::function<void(int64_t done, int64_t all)> progress;  // of a search; on any thread

  static Caller* of_this_thread();  // null: the program `tombolo`

  // For as long as it lives this thread works for the caller.
  class Called {
   public:
    explicit Called(Caller& caller);
    ~Called();
    Called(const Called&) = delete;
    Called& operator=(const Called&) = delete;

   private:
    Caller* const before_;
  };
};

// Something that users should know and the answer does not say. The program writes it to stderr, as "note: TEXT".
void note(const std::string& text);

}  // namespace tombolo::command
