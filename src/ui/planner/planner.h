// The planning commands as one function, for programs that call them without a command line.
//
//   Answer answer = planner::ask({.words = {"plan", "<job>", "--json"}, .name = "<job>", .text = toml}, interruption, {});
//
// The command itself parses the words and answers, so a program gets what a person at a terminal gets, with the same error
// messages. Any number of threads may ask at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/interruption.h"
#include "base/result.h"

namespace tombolo::planner {

struct Question {
  std::vector<std::string> words;  // a command and its options
  std::string name =
      {};  // of a file that `text` stands for, in `words` and in messages; empty: none
  std::string text = {};
  bool fails_a_check = false;  // for tests of what becomes of bugs
};

enum class Ending {
  kAnswered,     // also if `error` says why not
  kInterrupted,  // there is no answer
  kBug,          // `bug` says which check failed
};

struct Answer {
  Ending ending = Ending::kAnswered;
  std::string text = {};                // what the command printed, also where it failed after that
  std::vector<std::string> notes = {};  // what it would write to stderr, a sentence each
  std::optional<Error> error = {};
  std::string bug = {};
  bool stopped = false;  // the best that was found until the caller asked to stop
};

// `progress`: how far a search is; called on any thread, one call at a time.
Answer ask(const Question& question, Interruption& interruption,
           std::function<void(int64_t done, int64_t all)> progress);

// From now on a failed CHECK in this process ends the question that it belongs to, not the process.
void answer_bugs();

// The commands that are asked here, of the program's.
std::vector<std::string> command_names();

}  // namespace tombolo::planner
