// The program `tombolo`: parses the command line, runs one command, prints its error, sets the exit
// code.
#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <vector>

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
const Add kCommands[] = {
    add_simulate, add_profile,   add_train,   add_init,
    add_estimate, add_plan,      add_select,  [](CLI::App& app) { return add_sweep(app); },
    add_traffic,  add_reproduce, add_compare, add_report,
    add_convert,  add_fabric,    add_probe,   add_status,
    add_astra};

int finish(const Status& status) {
  std::cout.flush();
  if (!status) {
    std::cerr << status.error().text() << "\n";
    return status.error().exit_code();
  }
  if (!std::cout) {
    std::cerr << "stdout: cannot write the answer: the disk is full or the reader went away\n";
    return 2;
  }
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app{
      "Plans, simulates and runs large-model training where the network between the machines is "
      "the bottleneck.\nExit codes: 0 done; 2 what was given cannot be used; 3 no feasible plan; 1 "
      "anything else."};
  app.name("tombolo");
  app.set_version_flag("--version", "tombolo " + command::version());
  app.require_subcommand(1);
  std::vector<command::Command> commands;
  for (const auto add : kCommands) commands.push_back(add(app));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
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
