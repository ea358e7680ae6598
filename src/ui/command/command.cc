#include "ui/command/command.h"

#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "spec/layout/schedule_kind.h"
#include "ui/command/words.h"

namespace tombolo::command {

void add_job(CLI::App* words, std::string& job, const std::string& what) {
  heading(words, kGoesIn);
  words->add_option("job", job, what + "; - is stdin")->type_name("JOB")->required();
}

void add_input(CLI::App* words, InputOptions& in) {
  add_job(words, in.input, "job file (TOML) or Plan (JSON)");
  add_replacements(words, in);
}

void add_replacements(CLI::App* words, InputOptions& in) {
  words->add_option("--hardware", in.hardware, "hardware file written by tombolo profile")
      ->type_name("FILE");
  words->add_option("--seed", in.seed, "replaces [run].seed");
}

void add_data(CLI::App* words, InputOptions& in) {
  CLI::Option* text =
      words->add_option("--data", in.data, "replaces [data].text")->type_name("FILE");
  words->add_option("--tokens", in.tokens, "replaces [data].tokens; once for each file")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->excludes(text);
}

namespace {
template <typename Int>
void add_threads_of(CLI::App* words, Int& threads, int least) {
  words
      ->add_option(
          "--threads", threads,
          least == 0 ? "threads that compute; 0: one for each core" : "threads that compute")
      ->check(CLI::Range(least, 1024));
}
}  // namespace

void add_threads(CLI::App* words, int& threads, int least) {
  add_threads_of(words, threads, least);
}
void add_threads(CLI::App* words, int64_t& threads, int least) {
  add_threads_of(words, threads, least);
}

void add_worker(CLI::App* words, std::string& worker) {
  words->add_option("--worker", worker, "tombolo-worker; left out: next to this program")
      ->type_name("FILE");
}

void add_credentials(CLI::App* words, std::string& credentials, bool& plain_tcp) {
  CLI::Option* folder = words
                            ->add_option("--credentials", credentials,
                                         "that tombolo init made: TLS between all processes")
                            ->type_name("FOLDER");
  words
      ->add_flag("--plain-tcp", plain_tcp,
                 "to other hosts in clear text: for networks that encrypt below")
      ->excludes(folder);
}

void add_report(CLI::App* words, std::string& report, const std::string& what) {
  words->add_option("--report", report, "HTML page to write: " + what)->type_name("FILE");
}

void add_json(CLI::App* words, bool& json) {
  words->add_flag("--json", json, "one JSON document on stdout, nothing else");
}

std::vector<std::string> policies() {
  std::vector<std::string> names = layout::schedule_names();
  names.insert(names.begin(), "best");
  return names;
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
