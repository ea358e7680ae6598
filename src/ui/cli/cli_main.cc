// The program `tombolo`: parses the command line, runs one command, prints its error, sets the exit
// code.
#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <optional>
#include <vector>

#include "base/fields.h"
#include "ui/cli/commands.h"
#include "ui/command/progress.h"
#include "ui/decide_commands/crew.h"

namespace tombolo {
namespace {

int finish(const Status& status) {
  std::cout.flush();
  std::cout.flush();
  if (!status) {
    std::cerr << status.error().text() << "\n";
    return status.error().exit_code();
  }
  const Status written = command::check_stdout();
  if (!written) std::cerr << written.error().text() << "\n";
  return written ? 0 : written.error().exit_code();
}

// "tombolo plan: there is no such option: --objectiv" and what may be meant; empty where something
// else is wrong with the words.
std::string misspelt(const CLI::App& app, int argc, char** argv) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  std::vector<std::string> known;
  if (chosen.empty()) {
    if (argc < 2 || argv[1][0] == '-') return "";
    for (const CLI::App* each : app.get_subcommands({})) {
      known.push_back(each->get_name());
      for (const std::string& alias : each->get_aliases()) known.push_back(alias);
    }
    const std::string nearest = nearest_name(argv[1], known);
    return fmt::format("tombolo: there is no command \"{}\"\n  try {}", argv[1],
                       nearest.empty() ? "tombolo help, which lists them" : "tombolo " + nearest);
  }
  const CLI::App& command = *chosen.front();
  for (const CLI::Option* each : command.get_options()) {
    for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
  }
  for (const std::string& word : command.remaining(true)) {
    if (!word.starts_with("--") || word == "--") continue;
    const std::string option = word.substr(0, word.find('='));
    const std::string nearest = nearest_name(option, known);
    return fmt::format(
        "tombolo {}: there is no option {}\n  try {}", command.get_name(), option,
        nearest.empty() ? fmt::format("tombolo {} --help", command.get_name()) : nearest);
  }
  return "";
}

// "tombolo plan: --top: Value 0 not in range 1 to 10000" and what to try.
std::string refusal(const CLI::App& app, const std::string& what) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::string command = chosen.empty() ? "tombolo" : "tombolo " + chosen.front()->get_name();
  const bool says_what = what.find("\n  try ") != std::string::npos;
  return fmt::format("{}: {}{}", command, what,
                     says_what ? "" : fmt::format("\n  try {} --help", command));
}

int run(int argc, char** argv) {
  CLI::App app;
  const std::vector<command::Command> commands = add_commands(app);
  if (argc == 1) {
    std::cerr << app.help();
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::string meant = error.get_exit_code() == 0 ? "" : misspelt(app, argc, argv);
    if (!meant.empty()) {
      std::cerr << meant << "\n";
      return 2;
    }
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::cerr << refusal(app, error.what()) << "\n";
    return 2;
  }
  for (const command::Command& command : commands) {
    if (!*command.words) continue;
    std::optional<command::WaitLine> line;
    if (!command.lasts) line.emplace("tombolo " + command.words->get_name());
    const Status status = command.run(std::cout);
    line.reset();
    return finish(status);
  }
  return 2;  // not reached: one subcommand is required
}

}  // namespace
}  // namespace tombolo

int main(int argc, char** argv) {
  using namespace tombolo;
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a full disk or limit is an error message, not a signal
  if (argc > 1 && std::string_view(argv[1]) == "sweep" &&
      decide_commands::mpirun_started_several()) {
    return finish(fail(decide_commands::become_crew(argv)));
  }
  return run(argc, argv);
}
