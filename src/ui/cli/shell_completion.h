// Completion of `tombolo` for shells: commands, options, the values of those that have few, and files
// where one is wanted. Made of what the commands declare (ui/command/words.h).
#pragma once

#include <string>
#include <vector>

#include "ui/command/words.h"

namespace tombolo {

struct Completed {
  std::vector<command::CommandWords> commands;
  std::vector<std::string> topics;  // of `tombolo help`
};

std::string bash_completion(const Completed& words);
std::string zsh_completion(const Completed& words);
std::string fish_completion(const Completed& words);

}  // namespace tombolo
