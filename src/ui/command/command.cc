#include "ui/command/command.h"

#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>

namespace tombolo::command {

void add_input(CLI::App* words, InputOptions& in) {
  words->add_option("job", in.input, "job file (TOML) or Plan (JSON)")->required();
  words->add_option("--hardware", in.hardware, "hardware file written by tombolo profile");
  words->add_option("--seed", in.seed, "replaces [run].seed");
}

void add_data(CLI::App* words, InputOptions& in) {
  CLI::Option* text = words->add_option("--data", in.data, "replaces [data].text");
  words->add_option("--tokens", in.tokens, "replaces [data].tokens; once for each file")
      ->allow_extra_args(false)
      ->excludes(text);
}

void add_json(CLI::App* words, bool& json) {
  words->add_flag("--json", json, "one JSON document on stdout, nothing else");
}

Status check_stdout() {
  std::cout.flush();
  if (std::cout) return {};
  pollfd end{STDOUT_FILENO, POLLOUT, 0};
  if (poll(&end, 1, 0) > 0 && (end.revents & (POLLERR | POLLHUP)) != 0) return {};
  return unusable("stdout: cannot write the answer", "freeing space: the disk is full");
}

std::string version() {
  constexpr std::string_view commit = TOMBOLO_COMMIT;
  return commit.empty() ? TOMBOLO_VERSION : fmt::format("{} ({})", TOMBOLO_VERSION, commit);
}

}  // namespace tombolo::command
