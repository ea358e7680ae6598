#include "ui/serve/worker_backend.h"

#include <signal.h>
#include <sys/socket.h>
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

class WorkerBackend::Stream final : public Answer {
 public:
  Stream(WorkerBackend& worker, int64_t id) : worker_(worker), id_(id) {}
  ~Stream() override { worker_.forget(id_); }
  Step next(SimDuration patience) override { return worker_.next(id_, patience); }

 private:
  WorkerBackend& worker_;
  int64_t id_;
};

Result<std::unique_ptr<WorkerBackend>> WorkerBackend::start(const WorkerOptions& options) {
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
  if (!child) {
    ::close(ends[0]);
    return fail(child.error());
  }
  std::unique_ptr<WorkerBackend> out(new WorkerBackend(ends[0], *child));
  TRY(out->greet());
  out->alive_ = true;
  out->listener_ = start_without_signals([worker = out.get()] { worker->listen(); });
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
    if (sent <= 0) return false;
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
  news_.wait(lock, [&] { return inbox.admitted || inbox.refused || !alive_; });
  if (inbox.admitted) return stream;
  const Refused refused = inbox.refused.value_or(Refused{Refusal::kBusy, "the worker has gone"});
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
