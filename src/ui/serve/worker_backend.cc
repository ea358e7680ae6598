#include "ui/serve/worker_backend.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/parallel.h"
#include "perform/launch/child_process.h"

namespace tombolo::serve {

using generate::FrontMessage;
using generate::FrontWord;
using generate::Refusal;
using generate::Refused;
using generate::WorkerMessage;
using generate::WorkerWord;

namespace {

constexpr int kGreetingMax = 10;  // seconds, of a run

// A rank answers between its passes, which may take long; a client then asks somebody else sooner.
constexpr std::chrono::seconds kAdmissionMax{10};

}  // namespace

class WorkerBackend::Stream final : public Answer {
 public:
  Stream(WorkerBackend& worker, int64_t id) : worker_(worker), id_(id) {}
  ~Stream() override { worker_.forget(id_); }
  Step next(SimDuration patience) override { return worker_.next(id_, patience); }

 private:
  WorkerBackend& worker_;
  int64_t id_;
};

Result<int> WorkerBackend::connect_to(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.size() >= sizeof at.sun_path)
    return unusable(fmt::format("{}: no path for a socket", path), "one of up to 107 bytes");
  path.copy(at.sun_path, path.size());
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{.tv_sec = kGreetingMax};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (connect(socket, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0) return socket;
  const int error = errno;
  ::close(socket);
  return unusable(fmt::format("{}: no run answers prompts there: {}", path, std::strerror(error)),
                  "tombolo train JOB --prompt-weights FOLDER, and its OUT/prompts.socket");
}

Result<std::pair<int, int>> WorkerBackend::spawn(const WorkerOptions& options) {
  const std::string program =
      options.program.empty() ? TRY(launch::sibling_program("tombolo-worker")) : options.program;
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return failed(fmt::format("no socket for the worker: {}", std::strerror(errno)));
  const std::string threads = fmt::format("{}", options.threads);
  const auto child = launch::spawn(
      {.program = program,
       .arguments = {"generate", "--weights", options.weights, "--context",
                     fmt::format("{}", options.context), "--kv-bytes",
                     fmt::format("{}", options.kv_bytes), "--requests",
                     fmt::format("{}", options.requests), "--threads", threads},
       .environment = {{"OMP_NUM_THREADS", threads}, {"OPENBLAS_NUM_THREADS", threads}},
       .stdout_fd = ends[1]});
  ::close(ends[1]);
  if (child) return std::pair(ends[0], *child);
  ::close(ends[0]);
  return fail(child.error());
}

Result<std::unique_ptr<WorkerBackend>> WorkerBackend::start(const WorkerOptions& options) {
  std::pair<int, int> worker{-1, -1};
  if (options.run.empty()) {
    worker = TRY(spawn(options));
  } else {
    worker.first = TRY(connect_to(options.run));
  }
  std::unique_ptr<WorkerBackend> out(new WorkerBackend(worker.first, worker.second));
  TRY(out->greet());
  const timeval for_ever{}, patience{.tv_sec = kAdmissionMax.count()};
  setsockopt(out->socket_, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof for_ever);
  setsockopt(out->socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  out->alive_ = true;
  out->listener_ = start_without_signals([backend = out.get()] { backend->listen(); });
  return out;
}

WorkerBackend::~WorkerBackend() {
  shutdown(socket_, SHUT_RDWR);  // it ends at the end of what it reads
  if (listener_.joinable()) listener_.join();
  ::close(socket_);
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  launch::await_exit(pid_);
}

Error WorkerBackend::ended_early() {
  if (pid_ < 0) {
    return {ErrorCode::kFailed,
            fmt::format("the run did not greet within {} s", kGreetingMax),
            {},
            "one front at a time, and a rank that waits for messages at times"};
  }
  const int status = launch::await_exit(std::exchange(pid_, -1));
  const bool unusable = WIFEXITED(status) && WEXITSTATUS(status) == 2;
  return {unusable ? ErrorCode::kUnusable : ErrorCode::kFailed,
          fmt::format("the worker ended before its model was ready: {}; it says why above",
                      launch::describe_exit(status)),
          {},
          ""};
}

// Waits for the first line.
Status WorkerBackend::greet() {
  std::array<char, 4096> bytes{};
  for (;;) {
    if (const auto line = lines_.next()) {
      const WorkerMessage ready = TRY(generate::parse_worker(*line));
      if (ready.kind != WorkerWord::kReady || !ready.facts)
        return failed("the worker began with something else than its model");
      facts_ = *ready.facts;
      return {};
    }
    const ssize_t got = recv(socket_, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail(ended_early());
    TRY(lines_.add({bytes.data(), static_cast<size_t>(got)}));
  }
}

void WorkerBackend::listen() {
  std::array<char, 65'536> bytes{};
  for (;;) {
    while (const auto line = lines_.next()) {
      if (const auto message = generate::parse_worker(*line)) take(*message);
    }
    const ssize_t got = recv(socket_, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || !lines_.add({bytes.data(), static_cast<size_t>(got)})) break;
  }
  const std::lock_guard lock(mutex_);
  alive_ = false;
  for (auto& [id, inbox] : inboxes_)
    inbox.steps.push_back({.kind = StepKind::kFailed, .message = "The worker has gone."});
  news_.notify_all();
}

void WorkerBackend::take(const WorkerMessage& message) {
  const std::lock_guard lock(mutex_);
  const auto found = inboxes_.find(message.id);
  if (found == inboxes_.end()) return;  // its reader has left
  Inbox& inbox = found->second;
  switch (message.kind) {
    case WorkerWord::kReady:
      return;
    case WorkerWord::kAdmitted:
      inbox.admitted = true;
      break;
    case WorkerWord::kRefused:
      inbox.refused = Refused{message.why, message.message};
      break;
    case WorkerWord::kToken:
      inbox.steps.push_back({.kind = StepKind::kToken, .token = message.token});
      break;
    case WorkerWord::kStop:
      inbox.steps.push_back({.kind = StepKind::kStop});
      break;
    case WorkerWord::kLength:
      inbox.steps.push_back({.kind = StepKind::kLength});
      break;
    case WorkerWord::kFailed:
      inbox.steps.push_back({.kind = StepKind::kFailed, .message = message.message});
      break;
  }
  news_.notify_all();
}

bool WorkerBackend::say(const FrontMessage& message) {
  const std::string line = generate::to_line(message) + "\n";
  const std::lock_guard lock(writing_);
  for (size_t done = 0; done < line.size();) {
    const ssize_t sent = send(socket_, line.data() + done, line.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) {
      shutdown(socket_, SHUT_RDWR);  // half a line may have left: nothing can follow it
      return false;
    }
    done += static_cast<size_t>(sent);
  }
  return true;
}

tl::expected<std::unique_ptr<Answer>, Refused> WorkerBackend::admit(generate::Request request) {
  const auto gone = [] { return tl::unexpected(Refused{Refusal::kBusy, "the worker has gone"}); };
  {
    const std::lock_guard lock(mutex_);
    if (!alive_) return gone();
    request.id = ++next_id_;
    inboxes_.try_emplace(request.id);
  }
  const int64_t id = request.id;
  auto stream = std::make_unique<Stream>(*this, id);
  if (!say({.kind = FrontWord::kRequest, .request = std::move(request)})) return gone();
  std::unique_lock lock(mutex_);
  const Inbox& inbox = inboxes_.at(id);
  const bool answered = news_.wait_for(lock, kAdmissionMax,
                                       [&] { return inbox.admitted || inbox.refused || !alive_; });
  if (inbox.admitted) return stream;
  const Refused refused = inbox.refused.value_or(
      Refused{Refusal::kBusy, answered ? "the worker has gone" : "the worker is busy elsewhere"});
  lock.unlock();
  return tl::unexpected(refused);
}

bool WorkerBackend::alive() const {
  const std::lock_guard lock(mutex_);
  return alive_;
}

Step WorkerBackend::next(int64_t id, SimDuration patience) {
  std::unique_lock lock(mutex_);
  Inbox& inbox = inboxes_.at(id);
  news_.wait_for(lock, std::chrono::nanoseconds(patience.ns), [&] { return !inbox.steps.empty(); });
  if (inbox.steps.empty()) return {};
  Step step = std::move(inbox.steps.front());
  inbox.steps.pop_front();
  return step;
}

// The worker ignores a cancellation of what has ended.
void WorkerBackend::forget(int64_t id) {
  {
    const std::lock_guard lock(mutex_);
    inboxes_.erase(id);
    if (!alive_) return;
  }
  say({.kind = FrontWord::kCancel, .request = {.id = id}});
}

}  // namespace tombolo::serve
