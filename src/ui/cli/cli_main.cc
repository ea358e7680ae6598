// The program `tombolo`: parses the command line, runs one command, prints its error, sets the exit
// code.
#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <optional>
#include <vector>

#include "ui/cli/commands.h"
#include "ui/cli/mpirun.h"
#include "ui/command/progress.h"
#include "ui/command/refused_words.h"

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
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return finish(fail(command::refused_words(app, {argv + 1, argv + argc}, error)));
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
  if (argc > 1 && std::string_view(argv[1]) == "sweep" && mpirun_started_several()) {
    return finish(fail(join_process_group(argv)));
  }
  return run(argc, argv);
}
