// tombolo-worker: one rank of a run, one stage of a profile or the operators of its layers, one rank of a roofline, or
// a server of prompts. Started by `tombolo train`, `profile`, `roofline` and `prefill`, hardly ever by hand.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "base/json.h"
#include "base/stop_signals.h"
#include "perform/join/rendezvous.h"
#include "perform/join/run_prompts.h"
#include "perform/profile/profile.h"
#include "perform/run/rank_session.h"
#include "perform/run/worker_placement.h"
#include "perform/stage/perform.h"
#include "perform/stage/prompt_load.h"
#include "perform/worker/make_kernels.h"
#include "perform/worker/measure_device.h"
#include "perform/worker/serve_prompts.h"
#include "spec/cluster/islands.h"
#include "spec/plan/plan_file.h"
#include "steer/prefill/rank_windows.h"

namespace tombolo::worker {
namespace {

constexpr SimDuration kStuckMax{3'000'000'000};

struct Arguments {
  run::RankSessionOptions session;
  std::string launcher;
  std::string ports;
  double join_timeout = 60;
  double lease = tombolo::seconds(control::LeaseTerms{}.floor).value;
  double grace = tombolo::seconds(control::LeaseTerms{}.ceiling).value;
  int32_t parent = 0;  // 0: it outlives its parent
  std::string plan;
  int32_t stage = 0;
  double seconds = 10;
  int64_t threads = 1;
  std::vector<int64_t> hidden = {256, 512, 1024};
  PromptOptions prompts;
  generate::DecodePlace decode;
};

// What the session needs in addition to the command line: the token and the islands it is in.
Status complete(Arguments& arguments) {
  run::RankSessionOptions& session = arguments.session;
  session.launcher =
      TRY(during(transport::parse_address(arguments.launcher), "reading --launcher"));
  if (!arguments.ports.empty()) {
    session.at.ports = TRY(during(transport::parse_ports(arguments.ports), "reading --ports"));
  }
  session.join_max = round_to_ns(Seconds{arguments.join_timeout});
  session.terms.floor = round_to_ns(Seconds{arguments.lease});
  session.terms.ceiling = round_to_ns(Seconds{arguments.grace});
  if (!session.terms.check())
    return unusable("--lease is longer than --grace", "the same for both");
  const auto token = TRY(join::token_of_environment());
  if (!token && session.token_file.empty()) {
    return unusable(
        fmt::format("{} is not set: a worker is started by a launcher", join::kTokenVariable),
        "tombolo train JOB");
  }
  if (token) session.token = *token;
  unsetenv(join::kTokenVariable);
  if (const auto islands = TRY(cluster::islands_of_environment())) {
    session.network = islands->network;
  }
  return {};
}

// If this rank answers prompts. `windows` outlives the session.
Status prepare_prompts(run::RankSessionOptions& session,
                       std::optional<prefill::RankWindows>& windows, Threads& clock) {
  const auto prompts = TRY(join::prompts_of_environment());
  const auto own = prompts ? join::pipeline_of(*prompts, session.rank) : std::nullopt;
  if (!prompts || (!prompts->load && !own)) return {};
  session.filling.piece = SimDuration{prompts->piece_ns};
  windows = join::windows_of(*prompts, session.rank);
  session.filling.windows = windows ? &*windows : nullptr;
  if (const auto& load = prompts->load) {
    session.make_filler = [load = *load, &clock](
                              int32_t,
                              transport::Endpoint&) -> Result<std::unique_ptr<stage::Filler>> {
      return std::make_unique<stage::PromptLoadFiller>(load.layers, SimDuration{load.layer_ns},
                                                       SimDuration{load.ends_ns}, clock);
    };
    return {};
  }
  const PromptGaps gaps{.windows = session.filling.windows,
                        .within = SimDuration{prompts->within_ns}};
  const std::vector<int32_t>& ranks = prompts->pipelines[*own];
  session.filling_peers = ring_peers(ranks, session.rank);
  session.make_filler = [prompts = *prompts, ranks, socket = join::socket_of(*prompts, *own), gaps,
                         &clock](int32_t rank, transport::Endpoint& endpoint) {
    std::optional<ShardRing> ring;
    if (ranks.size() > 1) ring.emplace(ranks, rank, endpoint);
    return prompt_filler(
        {.weights = prompts.weights,
         .context = prompts.context,
         .limits = {.kv_bytes = prompts.kv_bytes, .requests_max = prompts.requests}},
        socket, handover::HostServices{clock}, gaps, std::move(ring));
  };
  return {};
}

// mpirun sends SIGTERM to all ranks at once, and kills them as soon as one of them has ended. To give rank 0 the time
// to stop the run in order, this rank waits a second for its Stop.
void on_terminate(int) { alarm(1); }
void on_alarm(int) { _exit(128 + SIGTERM); }

run::RankEnd run(Arguments& arguments) {
  // A worker that lost its parent has no work left; and ^C is handled by the launcher. The check of getppid() covers a
  // parent that was gone before prctl() asked for the signal.
  if (arguments.parent > 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (arguments.parent > 0 && getppid() != arguments.parent) raise(SIGKILL);
  signal(SIGINT, SIG_IGN);
  signal(SIGALRM, on_alarm);
  signal(SIGTERM, on_terminate);
  if (!outlives_terminal()) signal(SIGHUP, on_terminate);
  if (Status status = complete(arguments); !status) return {std::move(status)};
  run::RankSessionOptions& session = arguments.session;
  session.stuck_max = kStuckMax;
  session.log = [rank = session.rank](const std::string& line) {
    std::cerr << fmt::format("rank {}: {}\n", rank, line);  // fmt::print throws without a terminal
  };
  // From then on it exits on its own after the launcher, because it leaves its state first.
  session.on_joined = [] { prctl(PR_SET_PDEATHSIG, 0); };
  SystemClock clock;
  std::optional<prefill::RankWindows> windows;
  if (Status status = prepare_prompts(session, windows, clock); !status) return {std::move(status)};
  return run::serve_rank(
      session,
      [&](const plan::Plan& plan, int32_t rank) { return make_kernels(plan, rank, clock); }, clock);
}

Status profile(const Arguments& arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const plan::Plan plan = TRY(plan::read_plan(arguments.plan));
  if (arguments.stage < 0 || arguments.stage >= static_cast<int32_t>(plan.stages.size())) {
    return unusable(
        fmt::format("--stage {}: the Plan has {} stages", arguments.stage, plan.stages.size()));
  }
  SystemClock clock;
  const int32_t rank = plan.rank_of(arguments.stage, 0);
  const auto kernels = TRY(make_kernels(plan, rank, clock));
  const profile::StageProfile result = TRY(
      profile::profile_stage(plan, arguments.stage, *kernels, clock, Seconds{arguments.seconds}));
  fmt::print("{}\n", to_json(write_fields(result), -1));
  return {};
}

Status measure_overlap(const Arguments& arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const plan::Plan plan = TRY(plan::read_plan(arguments.plan));
  SystemClock clock;
  const plan::OverlapSamples samples =
      TRY(measure_operators(plan, Seconds{arguments.seconds}, clock));
  fmt::print("{}\n", to_json(write_fields(samples), -1));
  return {};
}

Status measure_roofline(const Arguments& arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const plan::DeviceRates rates =
      TRY(measure_device(arguments.threads, arguments.hidden, Seconds{arguments.seconds}));
  fmt::print("{}\n", to_json(write_fields(rates), -1));
  return {};
}

// Standard output is a socket to the front, in both directions.
Status answer_prompts(Arguments& arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN);  // ^C is the front's to answer
  arguments.prompts.threads = arguments.threads;
  SystemClock clock;
  return serve_prompts(arguments.prompts, STDOUT_FILENO, handover::HostServices{clock});
}

// Writes to standard output once it listens.
Status decode_prompts(Arguments& arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN);  // ^C is its parent's to answer
  arguments.prompts.threads = arguments.threads;
  const char* token = std::getenv(join::kDecodeTokenVariable);
  if (!token)
    return unusable(
        fmt::format("{} is not set: a worker is started by a command", join::kDecodeTokenVariable),
        "tombolo decode --weights FOLDER");
  arguments.decode.token = token;
  unsetenv(join::kDecodeTokenVariable);
  SystemClock clock;
  return serve_decode(arguments.prompts, arguments.decode, STDOUT_FILENO,
                      handover::HostServices{clock});
}

void add_decode(CLI::App* command, Arguments& arguments) {
  command->add_option("--host", arguments.decode.host, "address to listen on")->required();
  command->add_option("--port", arguments.decode.port, "0: any that is free")
      ->check(CLI::Range(0, 65'535));
  command->add_option("--credentials", arguments.decode.credentials, "folder: TLS");
  command->add_flag("--plain-tcp", arguments.decode.plain_tcp, "also to other hosts");
}

void add_generate(CLI::App* command, Arguments& arguments) {
  PromptOptions& prompts = arguments.prompts;
  command->add_option("--weights", prompts.weights, "folder with the model")->required();
  command->add_option("--context", prompts.context, "tokens; 0: the model's")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--kv-bytes", prompts.limits.kv_bytes, "of all keys and values")
      ->check(CLI::PositiveNumber);
  command->add_option("--requests", prompts.limits.requests_max, "at once")
      ->check(CLI::PositiveNumber);
  command->add_option("--threads", arguments.threads, "with which it computes")
      ->check(CLI::Range(1, 1024));
}

// What the command was about, for its message.
std::string about(const CLI::App& command, const Arguments& arguments) {
  if (command.get_name() == "run") return fmt::format("rank {}", arguments.session.rank);
  if (command.get_name() == "profile") return fmt::format("stage {}", arguments.stage);
  return command.get_name();
}

run::RankEnd perform(const CLI::App& command, Arguments& arguments) {
  if (command.get_name() == "run") return run(arguments);
  if (command.get_name() == "profile") return {profile(arguments)};
  if (command.get_name() == "overlap") return {measure_overlap(arguments)};
  if (command.get_name() == "generate") return {answer_prompts(arguments)};
  if (command.get_name() == "decode") return {decode_prompts(arguments)};
  if (command.get_name() == "kernels") {
    fmt::print("{}\n", to_json(Value(kernel_facts()), -1));
    return {};
  }
  return {measure_roofline(arguments)};
}

int main(int argc, char** argv) {
  // The kernel rounds sleeps up by 50 us unless told otherwise; emulated kernels sleep precisely.
  prctl(PR_SET_TIMERSLACK, 1);
  signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write(), like a full disk
  signal(SIGPIPE, SIG_IGN);
  Arguments arguments;
  run::RankSessionOptions& session = arguments.session;
  CLI::App app("One rank of a training run. `tombolo train` and `tombolo profile` start it.",
               "tombolo-worker");
  app.require_subcommand(1);
  CLI::App* run_command = app.add_subcommand("run", "performs one rank of the launcher's Plan");
  run_command->add_option("--rank", session.rank, "which rank")->required();
  run_command->add_option("--ranks", session.ranks, "how many there are")->required();
  run_command->add_option("--launcher", arguments.launcher, "its address and port")->required();
  run_command->add_option("--listen", session.at.listen, "address of this host");
  run_command->add_option("--advertise", session.at.advertised,
                          "where other ranks reach this one; left out: there");
  run_command->add_option("--ports", arguments.ports, "FIRST-LAST, on which it listens");
  run_command->add_option("--token-file", session.token_file, "instead of TOMBOLO_TOKEN");
  run_command->add_option("--out", session.output,
                          "folder of this rank's files; left out: where the launcher says");
  run_command->add_option("--checkpoints", session.checkpoints,
                          "of its checkpoints; left out: where the Plan says");
  run_command->add_option("--job", session.job, "what this host's job says; left out: nothing");
  run_command->add_option("--credentials", session.security.credentials,
                          "folder with certificates: TLS to all others");
  run_command->add_flag("--plain-tcp", session.security.plain_tcp, "also to other hosts");
  run_command->add_flag("--no-inbound", session.at.no_inbound,
                        "no other rank can connect to this one");
  run_command->add_option("--join-timeout", arguments.join_timeout, "seconds, for the launcher")
      ->check(CLI::Range(0.1, 86400.0 * 1000));
  run_command->add_option("--lease", arguments.lease, "seconds, the shortest lease")
      ->check(CLI::Range(1.0, seconds(control::kLeaseMax).value));
  run_command->add_option("--grace", arguments.grace, "seconds, the longest silence that is borne")
      ->check(CLI::Range(1.0, seconds(control::kLeaseMax).value));
  run_command->add_flag("--returns", session.returns,
                        "it is started again when it ends with code 75");
  run_command
      ->add_option("--child", arguments.parent, "the process that started it, with which it ends")
      ->check(CLI::PositiveNumber);
  CLI::App* profile_command =
      app.add_subcommand("profile", "measures one stage alone and prints one line of JSON");
  profile_command->add_option("--plan", arguments.plan, "Plan file")->required();
  profile_command->add_option("--stage", arguments.stage, "which stage")->required();
  profile_command->add_option("--seconds", arguments.seconds, "how long, about");
  CLI::App* overlap_command = app.add_subcommand(
      "overlap", "measures the operators of a layer and prints one line of JSON");
  overlap_command->add_option("--plan", arguments.plan, "Plan file")->required();
  overlap_command->add_option("--seconds", arguments.seconds, "how long, at least");
  CLI::App* roofline_command =
      app.add_subcommand("roofline", "measures this processor and prints one line of JSON");
  roofline_command->add_option("--threads", arguments.threads, "with which it computes")
      ->check(CLI::Range(1, 1024));
  roofline_command->add_option("--hidden", arguments.hidden, "sizes of the layers")
      ->delimiter(',')
      ->check(CLI::Range(32, 32768));
  roofline_command->add_option("--seconds", arguments.seconds, "how long, about");
  add_generate(app.add_subcommand("generate", "answers prompts that come through a socket"),
               arguments);
  CLI::App* decode_command =
      app.add_subcommand("decode", "answers prompts that were read elsewhere");
  add_generate(decode_command, arguments);
  add_decode(decode_command, arguments);
  app.add_subcommand("kernels", "prints with what it computes, as one line of JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const CLI::App& command = *app.get_subcommands().front();
  const run::RankEnd end = perform(command, arguments);
  const Status& status = end.status;
  if (status) return 0;
  if (!end.told)
    std::cerr << fmt::format("{}: {}\n", about(command, arguments), status.error().text());
  return end.exit_code(session.returns);
}

}  // namespace
}  // namespace tombolo::worker

int main(int argc, char** argv) {
  const int code = tombolo::worker::main(argc, argv);
#ifdef TOMBOLO_TORCH
  // LibTorch would take thousands of operators off its tables now, one by one, and a launcher wait.
  std::fflush(nullptr);
  std::_Exit(code);
#else
  return code;
#endif
}
