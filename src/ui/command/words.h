// How a command declares its words, and everything that is made of the declarations: help,
// completion for shells, man pages.
//
//   CLI::App* words = add_command(app, {"plan", kPlanning, "search the parallelism of a job",
//                                       "tombolo plan examples/planning/llama3-70b/job.toml"});
//   heading(words, kGoesIn);
//   words->add_option("job", options->job, "job file (TOML)")->type_name("FILE")->required();
//   heading(words, "How it is searched");
//   choices(words->add_option("--law", options->law, "law that predicts"), {"tombolo", "rail-only"});
//
// Options appear below the heading that was set last. The type name says what a value is: FILE
// and FOLDER are completed; TIME, SIZE and RATE have a unit; {a,b} lists all values.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tombolo::command {

// Headings of `tombolo --help`, in the order in which their first commands are added.
inline constexpr const char* kPlanning = "Decide what to run";
inline constexpr const char* kPredicting = "Predict";
inline constexpr const char* kTraining = "Prepare and train";
inline constexpr const char* kServing = "Answer prompts";
inline constexpr const char* kEvidence = "Compare, report, convert";
inline constexpr const char* kProgram = "This program";

// Headings that many commands have.
inline constexpr const char* kGoesIn = "What goes in";
inline constexpr const char* kComesOut = "What comes out";
inline constexpr const char* kPredicted = "How it is predicted";
inline constexpr const char* kPerformed = "How it is performed";
inline constexpr const char* kAcrossHosts = "Across hosts";

struct About {
  std::string name;
  std::string heading;
  std::string line;     // what it does, in one line
  std::string example;  // a command that works from the root of the repository
};
CLI::App* add_command(CLI::App& app, const About& about);
void heading(CLI::App* words, std::string_view text);

// The few values that an option takes: shown, completed, and anything else is refused.
CLI::Option* choices(CLI::Option* option, const std::vector<std::string>& values);
// Shown and completed; other values reach the command, which accepts or refuses them.
CLI::Option* suggestions(CLI::Option* option, const std::vector<std::string>& values);

// A number above 0.
CLI::Option* positive(CLI::Option* option);

// An option that takes a time as the keys of files do, "200 ms"; a number alone is one of seconds.
CLI::Option* add_time(CLI::App* words, const std::string& name, Seconds& value,
                      const std::string& text, Seconds least, Seconds most);

// What --help, completion and man pages know of an option.
struct OptionWords {
  std::vector<std::string> names;  // "--threads"; of a positional one "JOB"
  std::string value;               // "N", "{a,b}"; empty: a flag
  std::string text;
  std::string range;  // "1 to 1024"; empty: not said
  std::string default_value;
  std::string only_with;  // another option
  std::string heading;
  bool positional = false;
  bool required = false;
  bool repeated = false;

  std::vector<std::string> choices() const;  // of "{a,b}"
  std::string whole_text() const;            // with range, default and what it needs
};
struct CommandWords {
  std::vector<std::string> names;  // the command's, then its aliases
  std::string heading, line, example;
  std::vector<OptionWords> options;

  std::string usage() const;                  // "tombolo plan FILE [options]"
  std::vector<std::string> headings() const;  // of its options, in order
};
// "tombolo plan job.toml --objective cost": what was given, for pages that say how to make them again.
// Names of outputs, --json and --threads stay out of it, so that the same input gives the same bytes.
std::string line_given(const CLI::App& command);

std::vector<CommandWords> commands_of(const CLI::App& app);
CommandWords words_of(const CLI::App& command);

// "  --threads N                 text": the text wrapped below itself, from that column on.
std::string entry(const std::string& left, const std::string& text, size_t column = 30);

// Makes --help of `app` and of the commands that are added later what is below, and shows defaults.
void use_help(CLI::App& app);
std::string help_text(const CommandWords& command);
std::string help_text(const CLI::App& app);  // of the program: its commands

}  // namespace tombolo::command
