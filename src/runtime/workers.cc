#include "runtime/workers.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "runtime/child_process.h"
#include "runtime/launcher.h"

namespace tombolo::runtime {

using transport::Endpoint;

Result<std::unique_ptr<Workers>> Workers::start(const Options& options, const Clock& clock) {
  const transport::Token token = TRY(transport::Token::random());
  std::unique_ptr<Workers> workers(new Workers(clock));
  Endpoint::Options door{
      .identity = {.rank = options.ranks, .ranks = options.ranks + 1, .token = token},
      .port = options.control_port,
      .log = options.log};
  workers->endpoint_ =
      TRY(during(Endpoint::create(std::move(door), clock), "opening the control port"));
  TRY(workers->spawn_all(options, token));
  return workers;
}

Status Workers::spawn_all(const Options& options, const transport::Token& token) {
  running_.assign(static_cast<size_t>(options.ranks), -1);
  connected_.assign(static_cast<size_t>(options.ranks), false);
  for (int32_t rank = 0; rank < options.ranks; ++rank) {
    const pid_t pid = TRY(spawn({.program = options.program,
                                 .arguments = {"run", "--rank", fmt::format("{}", rank), "--ranks",
                                               fmt::format("{}", options.ranks), "--launcher-port",
                                               fmt::format("{}", endpoint_->port())},
                                 // One thread per rank: more would fight over the same cores.
                                 .environment = {{kTokenVariable, token.hex()},
                                                 {"OMP_NUM_THREADS", "1"},
                                                 {"OPENBLAS_NUM_THREADS", "1"}}}));
    std::lock_guard lock(mutex_);
    running_[rank] = pid;
    threads_.emplace_back([this, rank, pid] { watch(rank, pid); });
    threads_.emplace_back([this, rank] { hear(rank); });
  }
  return {};
}

Workers::~Workers() {
  {
    // Under the lock a pid is still ours: watch() has not waited for it yet, or took it off.
    std::lock_guard lock(mutex_);
    for (const pid_t pid : running_) {
      if (pid > 0) kill(pid, SIGKILL);
    }
  }
  if (endpoint_) endpoint_->abort({ErrorCode::kFailed, "the run is over"});
  for (std::thread& thread : threads_) thread.join();
}

void Workers::post(Event event) {
  std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

std::optional<Event> Workers::next(SimDuration patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(patience.ns), [&] { return !events_.empty(); });
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Workers::hear(int32_t rank) {
  Status linked = endpoint_->await_peer(rank, {}, kNever);
  if (!linked) return post({rank, Disconnected{linked.error()}});
  {
    std::lock_guard lock(mutex_);
    connected_[rank] = true;
  }
  while (true) {
    const auto message = endpoint_->receive(rank, kControlTag, kNever);
    if (!message) return post({rank, Disconnected{message.error()}});
    auto decoded = decode(message->payload);
    if (!decoded) return post({rank, Disconnected{decoded.error()}});
    post({rank, std::move(*decoded)});
  }
}

// waitid leaves the pid alone until running_ has forgotten it, so nobody signals a stranger.
void Workers::watch(int32_t rank, pid_t pid) {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  int status = 0;
  {
    std::lock_guard lock(mutex_);
    status = await_exit(pid);
    running_[rank] = -1;
  }
  post({rank, Exited{status}});
}

Status Workers::tell(int32_t rank, const ControlMessage& message) {
  return endpoint_->send(rank, kControlTag, encode(message));
}

bool Workers::all_exited() {
  std::lock_guard lock(mutex_);
  return std::all_of(running_.begin(), running_.end(), [](pid_t pid) { return pid < 0; });
}

void Workers::stop_all(const std::string& reason, SimTime deadline) {
  for (size_t rank = 0; rank < running_.size(); ++rank) {
    // Who went away meanwhile does not hear it, and need not.
    static_cast<void>(tell(static_cast<int32_t>(rank), Stop{reason}));
  }
  std::unique_lock lock(mutex_);
  for (size_t rank = 0; rank < running_.size(); ++rank) {
    if (running_[rank] > 0 && !connected_[rank]) kill(running_[rank], SIGTERM);
  }
  const auto gone = [&] {
    return std::all_of(running_.begin(), running_.end(), [](pid_t pid) { return pid < 0; });
  };
  while (!gone() && clock_.now() < deadline) {
    changed_.wait_for(lock, std::chrono::nanoseconds((deadline - clock_.now()).ns));
  }
  for (const pid_t pid : running_) {
    if (pid > 0) kill(pid, SIGKILL);
  }
}

}  // namespace tombolo::runtime
