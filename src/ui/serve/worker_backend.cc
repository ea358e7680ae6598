#include "ui/serve/worker_backend.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/parallel.h"
#include "perform/launch/child_process.h"

namespace tombolo::serve {

using generate::FrontMessage;
using generate::FrontWord;
using generate::Refusal;
using generate::Refused;
using generate::Share;
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
  if (options.decode) TRY(out->link_decode_worker(*options.decode));
  const timeval for_ever{}, patience{.tv_sec = kAdmissionMax.count()};
  setsockopt(out->socket_, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof for_ever);
  setsockopt(out->socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  {
    const std::lock_guard lock(out->mutex_);
    out->alive_ = out->end_.empty();
  }
  out->listener_ = start_without_signals([backend = out.get()] { backend->listen(); });
  return out;
}

WorkerBackend::~WorkerBackend() {
  decode_.reset();
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

Result<WorkerMessage> WorkerBackend::hear_one() {
  std::array<char, 4096> bytes{};
  for (;;) {
    if (const auto line = lines_.next()) return generate::parse_worker(*line);
    const ssize_t got = recv(socket_, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail(ended_early());
    TRY(lines_.add({bytes.data(), static_cast<size_t>(got)}));
  }
}

// Waits for the first line.
Status WorkerBackend::greet() {
  const WorkerMessage ready = TRY(hear_one());
  if (ready.kind != WorkerWord::kReady || !ready.facts)
    return failed("the worker began with something else than its model");
  facts_ = *ready.facts;
  return {};
}

// First this front, then the worker, which has the keys and values. Nobody asks for anything before.
Status WorkerBackend::link_decode_worker(const generate::DecodePlace& place) {
  decode_ = TRY(handover::DecodeFront::open(
      place, [this](const WorkerMessage& message) { take_decoded(message); },
      [this](const std::string& why) { end_all("the decode worker has gone: " + why); }));
  const generate::WorkerFacts& there = decode_->facts();
  if (there.vocabulary != facts_.vocabulary || there.weight_bytes != facts_.weight_bytes ||
      there.kv_bytes_per_token != facts_.kv_bytes_per_token || there.positions < facts_.positions) {
    return unusable(
        fmt::format(
            "the decode worker has another model: a vocabulary of {} and {} bytes of weights, "
            "and {} and {} here; {} positions, and {} here",
            there.vocabulary, there.weight_bytes, facts_.vocabulary, facts_.weight_bytes,
            there.positions, facts_.positions),
        "tombolo decode with the same --weights and --context");
  }
  if (!say({.kind = FrontWord::kDecode, .decode = place})) return fail(ended_early());
  const WorkerMessage answer = TRY(hear_one());
  if (answer.kind == WorkerWord::kLinked) return {};
  return failed(fmt::format("the worker does not reach the decode worker: {}", answer.message));
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
  end_all("the worker has gone");
}

void WorkerBackend::end_all(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!end_.empty()) return;
  end_ = why;
  alive_ = false;
  for (auto& [id, inbox] : inboxes_)
    inbox.steps.push_back({.kind = StepKind::kFailed, .message = "The worker has gone."});
  news_.notify_all();
}

namespace {

// What a message adds to an answer; nothing where it is about something else.
std::optional<Step> step_of(const WorkerMessage& message) {
  switch (message.kind) {
    case WorkerWord::kReady:
    case WorkerWord::kLinked:
    case WorkerWord::kAdmitted:
    case WorkerWord::kRefused:
      return std::nullopt;
    case WorkerWord::kToken:
      return Step{.kind = StepKind::kToken, .token = message.token};
    case WorkerWord::kStop:
      return Step{.kind = StepKind::kStop};
    case WorkerWord::kLength:
      return Step{.kind = StepKind::kLength};
    case WorkerWord::kFailed:
      return Step{.kind = StepKind::kFailed, .message = message.message};
  }
  return std::nullopt;
}

}  // namespace

void WorkerBackend::take(const WorkerMessage& message) {
  // The worker itself has failed, as where it cannot reach the decode worker any more.
  if (message.kind == WorkerWord::kFailed && message.id == 0) return end_all(message.message);
  const std::lock_guard lock(mutex_);
  const auto found = inboxes_.find(message.id);
  if (found == inboxes_.end()) return;  // its reader has left
  Inbox& inbox = found->second;
  if (message.kind == WorkerWord::kAdmitted) inbox.admitted = true;
  if (message.kind == WorkerWord::kRefused) inbox.refused = Refused{message.why, message.message};
  if (auto step = step_of(message)) inbox.steps.push_back(std::move(*step));
  if (inbox.shared && message.kind == WorkerWord::kToken && !inbox.has_first) {
    inbox.has_first = true;
    std::ranges::move(std::exchange(inbox.early, {}), std::back_inserter(inbox.steps));
  }
  news_.notify_all();
}

// The two links are not ordered: what follows the first token may be here before it.
void WorkerBackend::take_decoded(const WorkerMessage& message) {
  const std::lock_guard lock(mutex_);
  const auto found = inboxes_.find(message.id);
  if (found == inboxes_.end()) return;
  Inbox& inbox = found->second;
  if (message.kind == WorkerWord::kAdmitted) inbox.has_room = true;
  if (message.kind == WorkerWord::kRefused) inbox.refused = Refused{message.why, message.message};
  if (auto step = step_of(message))
    (inbox.has_first ? inbox.steps : inbox.early).push_back(std::move(*step));
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

// Who is asked depends on the share. False: it did not say yes.
bool WorkerBackend::ask(generate::Request request, bool Inbox::*answered) {
  const int64_t id = request.id;
  const bool decodes = request.share == Share::kDecode;
  const FrontMessage message{.kind = FrontWord::kRequest, .request = std::move(request)};
  if (decodes ? !decode_->say(message) : !say(message)) return false;
  std::unique_lock lock(mutex_);
  const Inbox& inbox = inboxes_.at(id);
  news_.wait_for(lock, kAdmissionMax, [&] { return inbox.*answered || inbox.refused || !alive_; });
  return inbox.*answered;
}

tl::expected<std::unique_ptr<Answer>, Refused> WorkerBackend::admit(generate::Request request) {
  const bool shared = decode_ && request.tokens_max > 1;
  {
    const std::lock_guard lock(mutex_);
    if (!alive_) return tl::unexpected(Refused{Refusal::kBusy, end_});
    request.id = ++next_id_;
    inboxes_.try_emplace(request.id).first->second.shared = shared;
  }
  const int64_t id = request.id;
  auto stream = std::make_unique<Stream>(*this, id);
  request.share = Share::kDecode;
  bool admitted = !shared || ask(request, &Inbox::has_room);
  request.share = shared ? Share::kPrefill : Share::kWhole;
  admitted = admitted && ask(std::move(request), &Inbox::admitted);
  if (admitted) return stream;
  std::unique_lock lock(mutex_);
  const Refused refused = inboxes_.at(id).refused.value_or(
      Refused{Refusal::kBusy, alive_ ? "the worker is busy elsewhere" : "the worker has gone"});
  lock.unlock();
  return tl::unexpected(refused);
}

std::string WorkerBackend::end() const {
  const std::lock_guard lock(mutex_);
  return end_;
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
  if (decode_) decode_->say({.kind = FrontWord::kCancel, .request = {.id = id}});
  say({.kind = FrontWord::kCancel, .request = {.id = id}});
}

}  // namespace tombolo::serve
