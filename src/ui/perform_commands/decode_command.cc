#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/stop_signals.h"
#include "perform/generate/front_message.h"
#include "perform/join/run_prompts.h"
#include "perform/join/security.h"
#include "perform/link/handshake.h"
#include "perform/run/child_process.h"
#include "perform/transport/address.h"
#include "perform/weights/weight_folder.h"
#include "ui/command/answer.h"
#include "ui/command/words.h"
#include "ui/perform_commands/perform_commands.h"

namespace tombolo::perform_commands {
namespace {

constexpr SimDuration kLookAtChild{100'000'000};

// The process that computes. It ends with this object.
class DecodeChild {
 public:
  DecodeChild(pid_t pid, int pipe) : pid_(pid), pipe_(pipe) {}
  DecodeChild(const DecodeChild&) = delete;
  DecodeChild& operator=(const DecodeChild&) = delete;
  ~DecodeChild() {
    ::close(pipe_);
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    run::await_exit(pid_);
  }

  // The next line that it prints; fails where it has ended.
  Result<std::string> line() {
    std::array<char, 4096> bytes{};
    for (;;) {
      if (auto line = lines_.next()) return std::move(*line);
      const ssize_t got = read(pipe_, bytes.data(), bytes.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return fail(ended());
      TRY(lines_.add({bytes.data(), static_cast<size_t>(got)}));
    }
  }

  bool alive() {
    if (pid_ < 0) return false;
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
  }

  Error ended() {
    const int status = run::await_exit(std::exchange(pid_, -1));
    const bool unusable = WIFEXITED(status) && WEXITSTATUS(status) == 2;
    return {unusable ? ErrorCode::kUnusable : ErrorCode::kFailed,
            fmt::format("the worker has ended: {}; it says why above", run::describe_exit(status)),
            {},
            ""};
  }

 private:
  pid_t pid_;
  int pipe_;
  generate::Lines lines_;
};

Result<std::string> token_of(const DecodeOptions& options) {
  std::string hex = options.token;
  if (const char* variable = std::getenv(join::kDecodeTokenVariable); hex.empty() && variable)
    hex = variable;
  if (hex.empty()) return TRY(link::Token::random()).hex();
  return TRY(during(link::Token::parse(hex), "reading --token")).hex();
}

Result<std::unique_ptr<DecodeChild>> start(const DecodeOptions& options,
                                           const transport::Address& at, const std::string& token,
                                           int64_t kv_bytes) {
  const std::string program =
      options.worker.empty() ? TRY(run::sibling_program("tombolo-worker")) : options.worker;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    return failed(fmt::format("no pipe for the worker: {}", std::strerror(errno)));
  const std::string threads = fmt::format("{}", options.threads);
  std::vector<std::string> words = {"decode",
                                    "--weights",
                                    options.weights,
                                    "--context",
                                    fmt::format("{}", options.context),
                                    "--kv-bytes",
                                    fmt::format("{}", kv_bytes),
                                    "--requests",
                                    fmt::format("{}", options.requests),
                                    "--threads",
                                    threads,
                                    "--host",
                                    at.host,
                                    "--port",
                                    fmt::format("{}", at.port)};
  if (!options.credentials.empty())
    words.insert(words.end(), {"--credentials", options.credentials});
  if (options.plain_tcp) words.push_back("--plain-tcp");
  const auto child = run::spawn({.program = program,
                                 .arguments = std::move(words),
                                 .environment = {{"OMP_NUM_THREADS", threads},
                                                 {"OPENBLAS_NUM_THREADS", threads},
                                                 {join::kDecodeTokenVariable, token}},
                                 .stdout_fd = ends[1]});
  ::close(ends[1]);
  if (child) return std::make_unique<DecodeChild>(*child, ends[0]);
  ::close(ends[0]);
  return fail(child.error());
}

// The token is printed to the user's terminal or file, and never put on a command line.
void say_ready(const DecodeOptions& options, const transport::Address& at, const std::string& token,
               const generate::WorkerFacts& facts, std::ostream& out) {
  if (options.json) {
    command::print_json(out, {{"address", at.text()},
                              {"token", token},
                              {"positions", facts.positions},
                              {"weight_bytes", facts.weight_bytes},
                              {"kv_bytes_per_token", facts.kv_bytes_per_token},
                              {"kv_bytes_max", facts.kv_bytes_max}});
  } else {
    out << fmt::format(
        "finishes answers at {}: weights {}, keys and values {} a token, {} for all prompts "
        "together\n"
        "in front of it:\n"
        "{}={} tombolo prefill --weights {} --decode {}\n",
        at.text(), brief(Bytes{real(facts.weight_bytes)}),
        brief(Bytes{real(facts.kv_bytes_per_token)}), brief(Bytes{real(facts.kv_bytes_max)}),
        join::kDecodeTokenVariable, token, options.weights, at.text());
  }
  out.flush();
}

}  // namespace

Status decode(const DecodeOptions& options, std::ostream& out) {
  StopSignals signals(SecondSignal::kEnds);
  transport::Address at = TRY(during(transport::parse_address(options.listen), "reading --listen"));
  TRY(join::credentials_of({options.credentials, options.plain_tcp}));
  TRY(weights::WeightFolder::open(options.weights));
  const Bytes kv = TRY(during(parse_quantity<Bytes>(options.kv_memory), "reading --kv-memory"));
  if (!(kv.value >= 1) || kv.value > 1e15)
    return unusable(fmt::format("--kv-memory {}: no size of memory", options.kv_memory), "1 GiB");
  const std::string token = TRY(token_of(options));
  const auto child = TRY(start(options, at, token, static_cast<int64_t>(kv.value)));
  const generate::WorkerMessage ready = TRY(generate::parse_worker(TRY(child->line())));
  const std::string port = TRY(child->line());
  std::from_chars(port.data(), port.data() + port.size(), at.port);
  if (!ready.facts || at.port == 0) return failed("the worker began with something else");
  say_ready(options, at, token, *ready.facts, out);
  SystemClock clock;
  while (!signals.flag()) {
    if (!child->alive()) return fail(child->ended());
    clock.sleep_until(clock.now() + kLookAtChild);
  }
  return {};
}

void add_prompt_limits(CLI::App* words, int64_t& context, std::string& kv_memory) {
  words->add_option("--context", context, "of prompt and answer together; 0: the model's positions")
      ->type_name("TOKENS")
      ->check(CLI::NonNegativeNumber);
  words->add_option("--kv-memory", kv_memory, "keys and values of all prompts together")
      ->type_name("SIZE");
}

command::Command add_decode(CLI::App& app) {
  auto options = std::make_shared<DecodeOptions>();
  CLI::App* words =
      command::add_command(app, {"decode", command::kServing,
                                 "finish answers whose prompts tombolo prefill read elsewhere",
                                 "tombolo decode --weights weights --listen 0.0.0.0:29610"});
  command::heading(words, command::kGoesIn);
  words->add_option("--weights", options->weights, "config.json and safetensors")
      ->type_name("FOLDER")
      ->required();
  words->add_option("--listen", options->listen, "port 0: any that is free")
      ->type_name("ADDRESS:PORT");
  words
      ->add_option("--token", options->token,
                   "32 hexadecimal digits; left out: TOMBOLO_DECODE_TOKEN, or drawn and printed")
      ->type_name("TOKEN");
  add_prompt_limits(words, options->context, options->kv_memory);
  words->add_option("--requests", options->requests, "at once; others are refused")
      ->check(CLI::Range(1, 1024));
  command::heading(words, command::kPerformed);
  command::add_threads(words, options->threads, 1);
  command::add_worker(words, options->worker);
  command::heading(words, command::kAcrossHosts);
  command::add_credentials(words, options->credentials, options->plain_tcp);
  command::heading(words, command::kComesOut);
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return decode(*options, out); }, true};
}

}  // namespace tombolo::perform_commands
