// A command of the program `tombolo`: its words on the command line, and what answers them.
//
// A command writes its answer to the stream it is given, either text for people or (json) one
// document, and progress to stderr. Errors come back; cli_main.cc prints them and sets the exit
// code. Each command has a function add_NAME, which describes its words to CLI11 (words.h) and returns
// what to run once they are read; ui/cli/commands.cc lists these functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace tombolo::command {

struct Command {
  CLI::App* words = nullptr;
  std::function<Status(std::ostream& out)> run;  // with the options that `words` has read
  bool lasts = false;  // waits for others, or reports its own progress: no WaitLine
};

// What every command that starts from a job or a Plan takes.
struct InputOptions {
  std::string input;                // a job (TOML) or a Plan (JSON)
  std::string hardware;             // hardware file of `tombolo profile`; empty: none
  std::string data;                 // replaces [data].text
  std::vector<std::string> tokens;  // replaces [data].tokens
  std::optional<int64_t> steps;     // replaces [run].steps
  std::optional<uint64_t> seed;     // replaces [run].seed
  bool without_strands = false;     // the command chooses the schedule, whatever the job asks for
  bool follows_changes = false;     // the command predicts what a run changes as well
};
// Words that several commands have, below the heading that they name or that was set last.
void add_job(CLI::App* words, std::string& job, const std::string& what);
void add_input(CLI::App* words, InputOptions& in);         // job, --hardware, --seed
void add_replacements(CLI::App* words, InputOptions& in);  // --hardware, --seed
void add_data(CLI::App* words, InputOptions& in);  // of those that perform: --data, --tokens
void add_threads(CLI::App* words, int& threads, int least);  // least 0: which means all cores
void add_threads(CLI::App* words, int64_t& threads, int least);
void add_worker(CLI::App* words, std::string& worker);
void add_credentials(CLI::App* words, std::string& credentials, bool& plain_tcp);
void add_report(CLI::App* words, std::string& report, const std::string& what);
void add_json(CLI::App* words, bool& json);

// What --policy takes: "best", and the names of all schedules.
std::vector<std::string> policies();

// Whether all of the answer was written to stdout; call it when the answer is complete. A reader that
// closes early, as `head` does, is no error.
Status check_stdout();

// "0.1.0 (1a2b3c4)".
std::string version();

}  // namespace tombolo::command
