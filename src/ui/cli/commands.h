// The commands of the program `tombolo`.
#pragma once

#include <vector>

#include "ui/command/command.h"

namespace tombolo {

// All of them, in the order in which --help lists them; `app` becomes the program's command line.
std::vector<command::Command> add_commands(CLI::App& app);

// Those about the program itself.
command::Command add_help(CLI::App& app);
command::Command add_completion(CLI::App& app);

// What `tombolo help` takes: commands and kinds of files.
std::vector<std::string> help_topics(const CLI::App& app);

}  // namespace tombolo
