// The program `tombolo`: parses the command line, runs one command, prints its error, sets the exit
// code.
#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <vector>

#include "base/fields.h"
#include "ui/decide_commands/crew.h"
#include "ui/decide_commands/decide_commands.h"
#include "ui/evidence_commands/evidence_commands.h"
#include "ui/perform_commands/perform_commands.h"
#include "ui/predict_commands/astra_command.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo {
namespace {

using namespace decide_commands;
using namespace evidence_commands;
using namespace perform_commands;
using namespace predict_commands;

// In the order in which --help lists them.
using Add = command::Command (*)(CLI::App& app);
const Add kCommands[] = {add_simulate,
                         add_profile,
                         add_roofline,
                         add_train,
                         add_tokenize,
                         add_export,
                         add_prefill,
                         add_decode,
                         add_init,
                         add_estimate,
                         add_plan,
                         add_select,
                         [](CLI::App& app) { return add_sweep(app); },
                         add_traffic,
                         add_strand,
                         add_reproduce,
                         add_compare,
                         add_report,
                         add_convert,
                         add_fabric,
                         add_probe,
                         add_status,
                         add_astra};

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
    for (const CLI::App* each : app.get_subcommands({})) known.push_back(each->get_name());
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

// `tombolo help [COMMAND]`.
int print_help(const CLI::App& app, const std::string& name) {
  for (const CLI::App* each : app.get_subcommands({})) {
    if (each->get_name() == name) {
      std::cout << each->help("tombolo");
      return 0;
    }
  }
  std::cout << app.help();
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app{
      "Plans, simulates and runs large-model training where the network between the machines is "
      "the bottleneck.\nExit codes: 0 done; 2 what was given cannot be used; 3 no feasible plan; 1 "
      "anything else."};
  app.name("tombolo");
  app.set_version_flag("-V,--version", "tombolo " + command::version());
  app.require_subcommand(1);
  std::vector<command::Command> commands;
  for (const auto add : kCommands) commands.push_back(add(app));
  if (argc == 1) {
    std::cerr << app.help();
    return 2;
  }
  if (std::string_view(argv[1]) == "help") return print_help(app, argc > 2 ? argv[2] : "");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::string meant = error.get_exit_code() == 0 ? "" : misspelt(app, argc, argv);
    if (!meant.empty()) {
      std::cerr << meant << "\n";
      return 2;
    }
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const command::Command& command : commands) {
    if (*command.words) return finish(command.run(std::cout));
  }
  return 2;  // not reached: one subcommand is required
}

}  // namespace
}  // namespace tombolo

int main(int argc, char** argv) {
  using namespace tombolo;
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a full disk or limit is an error message, not a signal
  if (argc > 1 && std::string_view(argv[1]) == "sweep" && mpirun_started_several()) {
    return finish(fail(become_crew(argv)));
  }
  return run(argc, argv);
}
