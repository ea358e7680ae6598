// tombolo-worker: one rank of a run, or one stage of a profile. Started by `tombolo train` and
// `tombolo profile`, hardly ever by hand.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "base/json.h"
#include "plan/plan_file.h"
#include "runtime/launcher.h"
#include "runtime/perform.h"
#include "runtime/profile.h"
#include "runtime/rank_session.h"
#include "worker/make_kernels.h"

namespace tombolo::worker {
namespace {

constexpr SimDuration kStuckMax{3'000'000'000};

struct Arguments {
  runtime::RankSessionOptions session;
  std::string plan;
  int32_t stage = 0;
  double seconds = 10;
};

Status run(Arguments& arguments) {
  // Without a parent there is nobody to work for; and ^C is the launcher's to answer.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN);
  const char* token = std::getenv(runtime::kTokenVariable);
  if (!token) {
    return unusable(
        fmt::format("{} is not set: a worker is started by a launcher", runtime::kTokenVariable),
        "tombolo train JOB");
  }
  runtime::RankSessionOptions& session = arguments.session;
  session.token = TRY(transport::Token::parse(token));
  unsetenv(runtime::kTokenVariable);
  session.stuck_max = kStuckMax;
  session.log = [rank = session.rank](const std::string& line) {
    fmt::print(stderr, "rank {}: {}\n", rank, line);
  };
  SystemClock clock;
  return runtime::serve_rank(
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
  const runtime::StageProfile result = TRY(
      runtime::profile_stage(plan, arguments.stage, *kernels, clock, Seconds{arguments.seconds}));
  fmt::print("{}\n", to_json(write_fields(result), -1));
  return {};
}

int main(int argc, char** argv) {
  // The kernel rounds sleeps up by 50 us unless told otherwise; emulated kernels sleep precisely.
  prctl(PR_SET_TIMERSLACK, 1);
  signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write(), like a full disk
  signal(SIGPIPE, SIG_IGN);
  Arguments arguments;
  runtime::RankSessionOptions& session = arguments.session;
  CLI::App app("One rank of a training run. `tombolo train` and `tombolo profile` start it.",
               "tombolo-worker");
  app.require_subcommand(1);
  CLI::App* run_command = app.add_subcommand("run", "performs one rank of the launcher's Plan");
  run_command->add_option("--rank", session.rank, "which rank")->required();
  run_command->add_option("--ranks", session.ranks, "how many there are")->required();
  run_command->add_option("--launcher-port", session.launcher_port, "on 127.0.0.1")->required();
  CLI::App* profile_command =
      app.add_subcommand("profile", "measures one stage alone and prints one line of JSON");
  profile_command->add_option("--plan", arguments.plan, "Plan file")->required();
  profile_command->add_option("--stage", arguments.stage, "which stage")->required();
  profile_command->add_option("--seconds", arguments.seconds, "how long, about");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Status status = run_command->parsed() ? run(arguments) : profile(arguments);
  if (status) return 0;
  fmt::print(stderr, "{}: {}\n",
             run_command->parsed() ? fmt::format("rank {}", session.rank)
                                   : fmt::format("stage {}", arguments.stage),
             status.error().text());
  return status.error().exit_code();
}

}  // namespace
}  // namespace tombolo::worker

int main(int argc, char** argv) { return tombolo::worker::main(argc, argv); }
