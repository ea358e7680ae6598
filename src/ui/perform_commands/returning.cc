
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/check.h"
#include "perform/launch/berths.h"
#include "perform/launch/membership.h"
#include "perform/launch/returning_worker.h"
#include "perform/launch/spare.h"
#include "ui/command/input.h"
#include "ui/perform_commands/launched.h"

namespace tombolo::perform_commands {
namespace {

constexpr int64_t kWindowsMax = 999;  // of --join-timeout that a rank waits for its launcher
constexpr SimDuration kSeatMax{5'000'000'000};  // for a spare to take the seat it was given

[[noreturn]] void end_as(int status) {
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

Result<launch::WorkerStart> returning(const TrainOptions& options,
                                      const launch::LaunchedRank& launched) {
  launch::WorkerStart start = TRY(worker_start(options, launched));
  start.child = true;
  start.returns = true;
  return start;
}

// In the seat. Nothing: somebody else sat there after all.
Result<std::optional<int>> sit(const TrainOptions& options, int32_t rank, int32_t ranks) {
  launch::WorkerStart start =
      TRY(returning(options, {.launcher = "--spare", .rank = rank, .ranks = ranks}));
  launch::WorkerStart first = start;
  first.join_max = std::min(start.join_max, kSeatMax);
  const int status = TRY(launch::run_worker(first));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0 && !launch::comes_again(status) &&
      !launch::asked_to_end())
    return std::nullopt;
  return TRY(launch::run_again(start, status));
}

}  // namespace

Error return_as(const TrainOptions& options, const launch::LaunchedRank& launched) {
  CHECK(launched.rank > 0, "rank {} is the launcher's own process", launched.rank);
  launch::pass_signals_to_worker();
  const auto start = returning(options, launched);
  if (!start) return start.error();
  launch::WorkerStart first = *start;
  first.join_max = launch::first_patience(*start);
  auto status = launch::run_worker(first);
  // The launcher waits for lost ranks as often as --restarts says, and so does a rank for it.
  launch::WorkerStart later = *start;
  later.join_max = {start->join_max.ns *
                    (1 + std::min(int64_t{options.restarts.value_or(0)}, kWindowsMax))};
  if (status) status = launch::run_again(later, *status);
  if (!status) return status.error();
  end_as(*status);
}

Status wait_as_spare(const TrainOptions& options) {
  launch::pass_signals_to_worker();
  const plan::Plan plan = TRY(command::load_plan(options.in));
  const auto ranks = static_cast<int32_t>(plan.ranks.size());
  if (!options.datacenter.empty() && !plan.cluster.find(options.datacenter)) {
    std::vector<std::string> names;
    for (const auto& datacenter : plan.cluster.datacenters) names.push_back(datacenter.name);
    return unusable(
        fmt::format("--datacenter {}: the job has no datacenter of that name", options.datacenter),
        fmt::format("one of {}", fmt::join(names, ", ")));
  }
  launch::SpareOptions spare{
      .start = TRY(worker_start(options, {.launcher = "--spare", .rank = 1, .ranks = ranks})),
      .datacenter = options.datacenter,
      .asked_to_end = launch::asked_to_end,
      .log = [](const std::string& line) { std::cerr << line << "\n"; }};
  if (const auto islands = TRY(cluster::islands_of_environment())) spare.network = islands->network;
  if (!spare.start.token) spare.journal = launch::Membership::journal_path(options.out);
  SystemClock clock;
  while (true) {
    const auto rank = TRY(launch::wait_for_seat(spare, clock));
    if (!rank) break;
    if (const auto status = TRY(sit(options, *rank, ranks))) end_as(*status);
  }
  if (launch::asked_to_end()) return failed("interrupted while waiting for a seat");
  return {};
}

}  // namespace tombolo::perform_commands
