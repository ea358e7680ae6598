// `tombolo completion`: what a shell needs to complete its words.
#include <CLI/CLI.hpp>
#include <memory>

#include "ui/cli/commands.h"
#include "ui/cli/shell_completion.h"

namespace tombolo {

command::Command add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* words = command::add_command(
      app, {"completion", command::kProgram,
            "completion of commands, options and values for a shell", "tombolo completion bash"});
  command::heading(words, command::kGoesIn);
  command::choices(words->add_option(
                       "shell", *shell,
                       "source its output: source <(tombolo completion bash); or save it where the "
                       "shell looks"),
                   {"bash", "zsh", "fish"})
      ->required();
  return {words, [shell, &app](std::ostream& out) -> Status {
            const Completed completed{command::commands_of(app), help_topics(app)};
            out << (*shell == "bash"  ? bash_completion(completed)
                    : *shell == "zsh" ? zsh_completion(completed)
                                      : fish_completion(completed));
            return {};
          }};
}

}  // namespace tombolo
