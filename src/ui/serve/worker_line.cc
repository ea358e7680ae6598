#include "ui/serve/worker_line.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "perform/run/child_process.h"

namespace tombolo::serve {

using generate::FrontMessage;
using generate::WorkerMessage;
using generate::WorkerWord;

namespace {

constexpr timeval kReadsAfter{.tv_sec = 10};     // who takes nothing for so long has gone
constexpr SimDuration kLookAtStop{100'000'000};  // at who wants to stop

}  // namespace

Result<std::unique_ptr<WorkerLine>> WorkerLine::to_run(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.size() >= sizeof at.sun_path)
    return unusable(fmt::format("{}: no path for a socket", path), "one of up to 107 bytes");
  path.copy(at.sun_path, path.size());
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // A stopped rank accepts no connection; connect() blocks once its queue is full: hence a limit.
  const timeval at_once{.tv_usec = 200'000};
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &at_once, sizeof at_once);
  if (connect(socket, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0) {
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &kReadsAfter, sizeof kReadsAfter);
    return std::unique_ptr<WorkerLine>(new WorkerLine(socket, -1));
  }
  const int error = errno;
  ::close(socket);
  return unusable(fmt::format("{}: no run answers prompts there: {}", path, std::strerror(error)),
                  "tombolo train JOB --prompt-weights FOLDER, and its OUT/prompts.socket");
}

Result<std::unique_ptr<WorkerLine>> WorkerLine::to_child(const Child& child) {
  const std::string program =
      child.program.empty() ? TRY(run::sibling_program("tombolo-worker")) : child.program;
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return failed(fmt::format("no socket for the worker: {}", std::strerror(errno)));
  setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &kReadsAfter, sizeof kReadsAfter);
  const std::string threads = fmt::format("{}", child.threads);
  const auto pid =
      run::spawn({.program = program,
                  .arguments = {"generate", "--weights", child.weights, "--context",
                                fmt::format("{}", child.context), "--kv-bytes",
                                fmt::format("{}", child.kv_bytes), "--requests",
                                fmt::format("{}", child.requests), "--threads", threads},
                  .environment = {{"OMP_NUM_THREADS", threads}, {"OPENBLAS_NUM_THREADS", threads}},
                  .stdout_fd = ends[1]});
  ::close(ends[1]);
  if (pid) return std::unique_ptr<WorkerLine>(new WorkerLine(ends[0], *pid));
  ::close(ends[0]);
  return fail(pid.error());
}

WorkerLine::~WorkerLine() {
  ::close(socket_);
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  run::await_exit(pid_);
}

void WorkerLine::hang_up() { shutdown(socket_, SHUT_RDWR); }

Error WorkerLine::ended_early() {
  const int status = run::await_exit(std::exchange(pid_, -1));
  const bool unusable = WIFEXITED(status) && WEXITSTATUS(status) == 2;
  return {unusable ? ErrorCode::kUnusable : ErrorCode::kFailed,
          fmt::format("the worker ended before its model was ready: {}; it says why above",
                      run::describe_exit(status)),
          {},
          ""};
}

Result<std::optional<WorkerMessage>> WorkerLine::hear(SimDuration patience) {
  std::array<char, 65'536> bytes{};
  for (;;) {
    if (const auto line = lines_.next()) return std::optional(TRY(generate::parse_worker(*line)));
    pollfd asked{.fd = socket_, .events = POLLIN, .revents = 0};
    const int ready =
        poll(&asked, 1, static_cast<int>(std::max<int64_t>(patience.ns, 0) / 1'000'000));
    if (ready == 0) return std::nullopt;
    if (ready < 0) {
      if (errno == EINTR) return std::nullopt;
      return failed(std::strerror(errno));
    }
    const ssize_t got = recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return fail({ErrorCode::kLostPeer, "it has closed its end", {}, ""});
    TRY(lines_.add({bytes.data(), static_cast<size_t>(got)}));
  }
}

Result<WorkerMessage> WorkerLine::await(SimTime until, const std::atomic<bool>& stop,
                                        const Clock& clock) {
  for (;;) {
    const SimDuration left = until - clock.now();
    auto heard = hear(std::min(left, kLookAtStop));
    if (!heard) {
      const bool ended = is_child() && heard.error().code == ErrorCode::kLostPeer;
      return fail(ended ? ended_early() : heard.error());
    }
    if (*heard && (**heard).kind != WorkerWord::kBeat) return std::move(**heard);
    if (stop) return failed("stopped");
    if (left.ns <= 0) return failed("it says nothing");
  }
}

bool WorkerLine::say(const FrontMessage& message) {
  const std::string line = generate::to_line(message) + "\n";
  const std::lock_guard lock(writing_);
  for (size_t done = 0; done < line.size();) {
    const ssize_t sent = send(socket_, line.data() + done, line.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) {
      hang_up();  // half a line may have left: nothing can follow it
      return false;
    }
    done += static_cast<size_t>(sent);
  }
  return true;
}

// A line as short as this leaves as a whole or not at all.
void WorkerLine::say_beat() {
  const std::string line =
      generate::to_line(FrontMessage{.kind = generate::FrontWord::kBeat}) + "\n";
  const std::unique_lock lock(writing_, std::try_to_lock);
  if (lock) send(socket_, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace tombolo::serve
