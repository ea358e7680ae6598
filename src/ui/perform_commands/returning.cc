
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/check.h"
#include "perform/launch/berths.h"
#include "perform/launch/membership.h"
#include "perform/launch/returning_worker.h"
#include "perform/launch/vacancy.h"
#include "ui/command/input.h"
#include "ui/perform_commands/launched.h"

namespace tombolo::perform_commands {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookAgain{50};
constexpr int64_t kWindowsMax = 999;  // of --join-timeout that a rank waits for its launcher
constexpr SimDuration kSeatMax{5'000'000'000};  // for a spare to take the seat it has claimed

[[noreturn]] void end_as(int status) {
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

// The first vacant seat that is nobody else's yet.
Result<std::optional<int32_t>> take_seat(const std::string& output) {
  const auto vacancy = TRY(launch::read_vacancy(output));
  if (!vacancy) return std::nullopt;
  for (const int32_t rank : vacancy->ranks) {
    if (TRY(launch::claim_seat(output, vacancy->epoch, rank))) return rank;
  }
  return std::nullopt;
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
  auto status = launch::run_worker(*start);
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
  const std::string journal = launch::Membership::journal_path(options.out);
  const auto join_max = std::chrono::duration<double>(options.join_timeout);
  const auto begun = steady_clock::now();
  bool seen = false;
  std::error_code ec;
  while (!launch::asked_to_end()) {
    const bool there = std::filesystem::exists(journal, ec);
    if (seen && !there) return {};  // the run is over
    seen = seen || there;
    if (!seen && steady_clock::now() - begun > join_max) {
      return failed(fmt::format("{}: no run goes on here", options.out),
                    "rank 0 with the same --out and --restarts");
    }
    const auto rank = TRY(take_seat(options.out));
    if (!rank) {
      std::this_thread::sleep_for(kLookAgain);
      continue;
    }
    if (const auto status = TRY(sit(options, *rank, ranks))) end_as(*status);
  }
  return failed("interrupted while waiting for a seat");
}

}  // namespace tombolo::perform_commands
