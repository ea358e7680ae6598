#include "ui/cli/commands.h"

#include <CLI/CLI.hpp>

#include "ui/command/words.h"
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
const Add kCommands[] = {add_plan,    add_select,   [](CLI::App& app) { return add_sweep(app); },
                         add_fabric,  add_simulate, add_estimate,
                         add_traffic, add_strand,   add_astra,
                         add_profile, add_roofline, add_probe,
                         add_tune,    add_init,     add_tokenize,
                         add_train,   add_status,   add_export,
                         add_prefill, add_decode,   add_compare,
                         add_report,  add_convert,  add_reproduce,
                         add_doctor,  add_help,     add_completion};

}  // namespace

std::vector<command::Command> add_commands(CLI::App& app) {
  app.name("tombolo");
  app.description(
      "Tombolo plans, simulates and runs large-model training where the network between the "
      "machines\nis the bottleneck.");
  app.footer(
      "  tombolo COMMAND --help      the options of a command, with an example\n"
      "  tombolo help job            the keys of a job file; of other files: tombolo help --help\n"
      "\n"
      "Exit codes: 0 done; 2 what was given cannot be used; 3 no feasible plan; 1 anything "
      "else.\n");
  app.set_version_flag("-V,--version", "tombolo " + command::version());
  app.require_subcommand(1);
  command::use_help(app);
  std::vector<command::Command> commands;
  for (const Add add : kCommands) commands.push_back(add(app));
  return commands;
}

}  // namespace tombolo
