#include "ui/command/command.h"

#include <CLI/CLI.hpp>

namespace tombolo::command {

void add_input(CLI::App* words, InputOptions& in) {
  words->add_option("job", in.input, "job file (TOML) or Plan (JSON)")->required();
  words->add_option("--hardware", in.hardware, "hardware file written by tombolo profile");
  words->add_option("--seed", in.seed, "replaces [run].seed");
}

void add_json(CLI::App* words, bool& json) {
  words->add_flag("--json", json, "one JSON document on stdout, nothing else");
}

std::string version() {
  constexpr std::string_view commit = TOMBOLO_COMMIT;
  return commit.empty() ? TOMBOLO_VERSION : fmt::format("{} ({})", TOMBOLO_VERSION, commit);
}

}  // namespace tombolo::command
