
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>

#include "base/check.h"
#include "perform/join/membership.h"
#include "perform/run/returning_worker.h"
#include "perform/run/spare.h"
#include "perform/run/worker_placement.h"
#include "ui/command/input.h"
#include "ui/perform_commands/launched.h"

namespace tombolo::perform_commands {
namespace {

constexpr int kRestarts = 3;  // that a spare assumes of the run, unless specified

[[noreturn]] void end_as(int status) {
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

// How it waits for its own rank, or as a spare for any vacant one.
Result<run::SpareOptions> waiting(const TrainOptions& options, const join::LaunchedRank& launched) {
  run::SpareOptions out{.start = TRY(worker_start(options, launched)),
                        .asked_to_end = run::asked_to_end,
                        .log = [](const std::string& line) { std::cerr << line << "\n"; }};
  if (const auto islands = TRY(cluster::islands_of_environment())) out.network = islands->network;
  if (!out.start.token) out.journal = join::Membership::journal_path(options.out);
  return out;
}

}  // namespace

Error return_as(const TrainOptions& options, const join::LaunchedRank& launched) {
  CHECK(launched.rank > 0, "rank {} is the launcher's own process", launched.rank);
  run::pass_signals_to_worker();
  auto start = waiting(options, launched);
  if (!start) return start.error();
  const auto plan = command::load_plan(options.in);
  if (!plan) return plan.error();
  start->datacenter = plan->ranks[static_cast<size_t>(launched.rank)].datacenter;
  SystemClock clock;
  const auto status =
      run::return_in_seat(*start, options.restarts.value_or(0), run::system_processes(), clock);
  if (!status) return status.error();
  end_as(*status);
}

Status wait_as_spare(const TrainOptions& options) {
  run::pass_signals_to_worker();
  const plan::Plan plan = TRY(command::load_plan(options.in));
  const auto ranks = static_cast<int32_t>(plan.ranks.size());
  if (!options.datacenter.empty() && !plan.cluster.find(options.datacenter)) {
    std::vector<std::string> names;
    for (const auto& datacenter : plan.cluster.datacenters) names.push_back(datacenter.name);
    return unusable(
        fmt::format("--datacenter {}: the job has no datacenter of that name", options.datacenter),
        fmt::format("one of {}", fmt::join(names, ", ")));
  }
  run::SpareOptions spare =
      TRY(waiting(options, {.launcher = "--spare", .rank = 1, .ranks = ranks}));
  spare.datacenter = options.datacenter;
  SystemClock clock;
  const int status = TRY(run::return_as_spare(spare, options.restarts.value_or(kRestarts),
                                              run::system_processes(), clock));
  if (status != 0) end_as(status);
  if (run::asked_to_end()) return failed("interrupted while waiting for a vacant rank");
  return {};
}

}  // namespace tombolo::perform_commands
