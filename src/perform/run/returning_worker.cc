#include "perform/run/returning_worker.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/stop_signals.h"
#include "perform/join/rendezvous.h"
#include "perform/run/child_process.h"

namespace tombolo::run {
namespace {

constexpr int64_t kWindowsMax = 999;  // of --join-timeout that a rank waits for its launcher
constexpr SimDuration kTakeSeatMax{5'000'000'000};  // for a spare to take the rank it was given
constexpr SimDuration kLooksForAddress{200'000'000};
constexpr SimDuration kLooksForLauncher{500'000'000};

volatile sig_atomic_t worker_process = 0;
volatile sig_atomic_t end_was_asked = 0;

void pass_to_worker(int number) {
  end_was_asked = 1;
  if (worker_process > 0) kill(worker_process, number);
}

}  // namespace

// The worker ignores SIGINT: a terminal sends it to the launcher as well, which stops the run.
void pass_signals_to_worker() {
  struct sigaction action {};
  action.sa_handler = pass_to_worker;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  if (!outlives_terminal()) sigaction(SIGHUP, &action, nullptr);
}

bool asked_to_end() { return end_was_asked != 0; }

Result<int> run_worker(const WorkerStart& start, Processes& processes) {
  const pid_t pid = TRY(processes.spawn(worker_child(start)));
  worker_process = pid;
  const int status = processes.await_exit(pid);
  worker_process = 0;
  return status;
}

bool comes_again(int status) {
  if (asked_to_end()) return false;
  if (WIFSIGNALED(status)) return true;
  return WIFEXITED(status) &&
         (WEXITSTATUS(status) == kComesAgain || WEXITSTATUS(status) == kComesAgainFromGathering);
}

namespace {

bool has_failed(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) != 0 && !comes_again(status);
}

// `start` with the address that this host has now; waits up to join_max until it has one.
Result<WorkerStart> at_address(WorkerStart start, Threads& threads) {
  const SimTime deadline = threads.now() + start.join_max;
  while (true) {
    auto at = address_now(start);
    if (!at && !asked_to_end() && threads.now() < deadline) {
      threads.sleep_until(threads.now() + kLooksForAddress);
      continue;
    }
    start.placement.at = TRY(std::move(at));
    return start;
  }
}

// How the worker ended. One that could not listen because the host lost that address is started again
// at the next one.
Result<int> run_at_address(const WorkerStart& start, Processes& processes, Threads& threads) {
  while (true) {
    const WorkerStart now = TRY(at_address(start, threads));
    const int status = TRY(run_worker(now, processes));
    const bool went_away =
        start.wanted && !transport::is_address_of_this_host(now.placement.at.listen);
    if (!has_failed(status) || !went_away || asked_to_end()) return status;
  }
}

}  // namespace

Result<int> run_again(const WorkerStart& start, int status, Processes& processes,
                      Threads& threads) {
  while (comes_again(status)) status = TRY(run_at_address(start, processes, threads));
  return status;
}

namespace {

WorkerStart patient(WorkerStart start, int64_t restarts) {
  start.join_max = {start.join_max.ns * (1 + std::min(restarts, kWindowsMax))};
  return start;
}

bool ended_with(int status, int code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; }

// Runs the worker of a rank that a launcher gave to this spare: how it ended. nullopt: another
// process had the rank after all, or has it by now.
Result<std::optional<int>> sit(const SpareOptions& waiting, int32_t rank, int64_t restarts,
                               Processes& processes, Threads& threads) {
  WorkerStart first = waiting.start;
  first.rank = rank;
  first.child = first.returns = true;
  const WorkerStart later = patient(first, restarts);
  first.join_max = std::min(first.join_max, kTakeSeatMax);
  int status = TRY(run_at_address(first, processes, threads));
  if (has_failed(status) && !waiting.asked_to_end()) return std::nullopt;
  // If the epoch never began, return as a spare: another rank may have no process at all, while this
  // one may have its original back.
  while (comes_again(status) && !ended_with(status, kComesAgainFromGathering))
    status = TRY(run_at_address(later, processes, threads));
  if (ended_with(status, kDisplaced) || comes_again(status)) return std::nullopt;
  return status;
}

}  // namespace

Result<int> return_as_spare(const SpareOptions& waiting, int64_t restarts, Processes& processes,
                            Threads& threads) {
  while (true) {
    const auto rank = TRY(wait_for_seat(waiting, threads));
    if (!rank) return 0;
    if (const auto status = TRY(sit(waiting, *rank, restarts, processes, threads))) return *status;
  }
}

// The launcher's token file exists only while ranks gather. If the launcher answers and there is no
// token file, every rank has a process: waits until one is lost and the run gathers again. False: the
// run has ended, or this process was asked to end.
Result<bool> await_gathering(const SpareOptions& waiting, SimDuration patience, Threads& threads) {
  if (waiting.start.token) return true;
  const auto note = [&](const char* what) {
    if (waiting.log) waiting.log(fmt::format("rank {}: {}", waiting.start.rank, what));
  };
  std::optional<SimTime> seen;  // the launcher, last
  std::optional<SimTime> note_at;
  while (!TRY(join::read_token_file(waiting.start.token_file))) {
    if (waiting.asked_to_end()) return false;
    std::error_code ec;
    if (waiting.sockets->takes_connections(waiting.start.launcher, kLooksForAddress)) {
      seen = threads.now();
      if (!note_at) note_at = *seen + waiting.start.terms.ceiling;
    } else if (!seen || threads.now() >= *seen + patience) {
      return true;  // its worker waits for a launcher, and says that there is none
    } else if (!waiting.journal.empty() && !std::filesystem::exists(waiting.journal, ec)) {
      note("the run is over; another process was this rank");
      return false;
    }
    if (note_at && threads.now() >= *note_at) {
      note("another process is this rank; this one waits until it is lost, or the run is over");
      note_at = kNever;
    }
    threads.sleep_until(threads.now() + kLooksForLauncher);
  }
  return true;
}

Result<int> return_in_seat(SpareOptions waiting, int64_t restarts, Processes& processes,
                           Threads& threads) {
  waiting.seat = waiting.start.rank;
  WorkerStart first = waiting.start;
  first.child = first.returns = true;
  const WorkerStart later = patient(first, restarts);
  first.join_max = first_patience(first);
  if (!TRY(await_gathering(waiting, first.join_max, threads))) return 0;
  int status = TRY(run_at_address(first, processes, threads));
  status = TRY(run_again(later, status, processes, threads));
  if (!ended_with(status, kDisplaced) || waiting.asked_to_end()) return status;
  if (waiting.log) {
    waiting.log(
        fmt::format("another process is rank {}; this one waits as a spare until {} is vacant, or "
                    "the run is over",
                    waiting.seat,
                    waiting.datacenter.empty() ? std::string("it")
                                               : "it or another rank of " + waiting.datacenter));
  }
  waiting.start.join_max = later.join_max;
  return return_as_spare(waiting, restarts, processes, threads);
}

}  // namespace tombolo::run
