#include "ui/serve/worker_backend.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/parallel.h"

namespace tombolo::serve {

using generate::FrontMessage;
using generate::FrontWord;
using generate::Refusal;
using generate::Refused;
using generate::Share;
using generate::WorkerMessage;
using generate::WorkerWord;

namespace {

constexpr SimDuration kBeat{1'000'000'000};

// A rank answers only between its passes, which may take long. After this long without an answer the
// prompt is refused, so that the client can ask another server.
constexpr std::chrono::seconds kAdmissionMax{10};

std::string silence_of(const char* who, int64_t beats) {
  return fmt::format("{} has said nothing for {} s", who, beats * kBeat.ns / 1'000'000'000);
}

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

// A child: connects to the decode worker before weights are loaded. A run: only after its rank has
// answered, so that retries of the run do not connect to the decode worker as often.
Result<std::unique_ptr<WorkerBackend>> WorkerBackend::start(const WorkerOptions& options,
                                                            const std::atomic<bool>& stop) {
  std::unique_ptr<WorkerBackend> out(new WorkerBackend);
  const bool child = options.run.empty();
  if (child && options.decode) TRY(out->call_decode_worker(*options.decode));
  TRY(out->open_line(options, stop));
  if (!child && options.decode) TRY(out->call_decode_worker(*options.decode));
  if (options.decode)
    TRY(out->link_both(*options.decode, out->clock_.now() + options.greeting, stop));
  {
    const std::lock_guard lock(out->mutex_);
    out->alive_ = out->end_.empty();
  }
  const int64_t beats = std::max<int64_t>(options.silence.ns / kBeat.ns, 1);
  out->listener_ = start_without_signals([backend = out.get(), beats] { backend->listen(beats); });
  return out;
}

WorkerBackend::~WorkerBackend() {
  hang_up();
  decode_.reset();  // it calls this object
}

void WorkerBackend::hang_up() {
  end_all("the front has left");
  if (decode_) decode_->hang_up();
  if (line_) line_->hang_up();  // the listener ends at the end of what it reads
  if (listener_.joinable()) listener_.join();
}

// Waits for the first message.
Status WorkerBackend::open_line(const WorkerOptions& options, const std::atomic<bool>& stop) {
  if (options.run.empty()) {
    line_ = TRY(WorkerLine::to_child({.program = options.program,
                                      .weights = options.weights,
                                      .context = options.context,
                                      .kv_bytes = options.kv_bytes,
                                      .requests = options.requests,
                                      .threads = options.threads}));
  } else {
    line_ = TRY(WorkerLine::to_run(options.run));
  }
  const SimTime until = line_->is_child() ? kNever : clock_.now() + options.greeting;
  auto ready = line_->await(until, stop, clock_);
  if (!ready && !options.run.empty()) {
    return failed(
        fmt::format("the run did not greet within {}: {}; one front at a time, and a "
                    "rank that waits for messages at times",
                    brief(seconds(options.greeting)), ready.error().message));
  }
  const WorkerMessage message = TRY(std::move(ready));
  if (message.kind != WorkerWord::kReady || !message.facts)
    return failed("the worker began with something else than its model");
  facts_ = *message.facts;
  return {};
}

Status WorkerBackend::call_decode_worker(const generate::DecodePlace& place) {
  decode_ = TRY(handover::DecodeFront::open(
      place, [this](const WorkerMessage& message) { take_decoded(message); },
      [this](const std::string& why) { end_all("the decode worker has gone: " + why); },
      handover::HostServices{clock_}));
  return {};
}

// First links this front, then the worker, which has the keys and values. No prompt is sent before.
Status WorkerBackend::link_both(const generate::DecodePlace& place, SimTime until,
                                const std::atomic<bool>& stop) {
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
  const bool known = !there.weights_digest.empty() && !facts_.weights_digest.empty();
  if (known && there.weights_digest != facts_.weights_digest) {
    return unusable(
        fmt::format(
            "the decode worker has other weights of the same shape: their digest is {}, and "
            "{} here",
            there.weights_digest, facts_.weights_digest),
        "tombolo decode with the same --weights");
  }
  if (!line_->say({.kind = FrontWord::kDecode, .decode = place}))
    return failed("the worker has gone");
  const WorkerMessage answer =
      TRY(during(line_->await(until, stop, clock_), "linking the worker to the decode worker"));
  if (answer.kind == WorkerWord::kLinked) return {};
  return failed(fmt::format("the worker does not reach the decode worker: {}", answer.message));
}

void WorkerBackend::listen(int64_t beats_max) {
  SimTime next_beat = clock_.now() + kBeat;
  for (;;) {
    const auto heard = line_->hear(kBeat);
    if (!heard) return end_all("the worker has gone", !line_->is_child());
    if (*heard) {
      line_beats_ = 0;
      take(**heard);
    }
    if (clock_.now() < next_beat) continue;
    if (!beat(beats_max)) return;
    next_beat = clock_.now() + kBeat;
  }
}

// Silence is counted in unanswered heartbeats, not in time, as a front that was stopped itself has sent
// none. A child gets none: it may compute a layer for long, and only this front depends on it.
bool WorkerBackend::beat(int64_t beats_max) {
  if (!line_->is_child()) {
    if (line_beats_++ == beats_max) {
      end_all(silence_of("the worker", beats_max));
      return false;
    }
    line_->say_beat();
  }
  if (decode_) {
    if (decode_beats_++ == beats_max) {
      end_all(silence_of("the decode worker", beats_max));
      return false;
    }
    decode_->say({.kind = FrontWord::kBeat});
  }
  return true;
}

void WorkerBackend::end_all(const std::string& why, bool may_return) {
  const std::lock_guard lock(mutex_);
  if (!end_.empty()) return;
  end_ = why;
  may_return_ = may_return;
  alive_ = false;
  for (auto& [id, inbox] : inboxes_)
    inbox.steps.push_back({.kind = StepKind::kLost, .message = "The worker has gone."});
  news_.notify_all();
}

namespace {

std::optional<Step> said_step(const WorkerMessage& message) {
  const auto kind = generate::step_of(message.kind);
  if (!kind) return std::nullopt;
  return Step{.kind = *kind, .token = message.token, .message = message.message};
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
  if (auto step = said_step(message)) inbox.steps.push_back(std::move(*step));
  if (inbox.shared && message.kind == WorkerWord::kToken && !inbox.has_first) {
    inbox.has_first = true;
    std::ranges::move(std::exchange(inbox.early, {}), std::back_inserter(inbox.steps));
  }
  news_.notify_all();
}

// The two links are not ordered: what follows the first token may be here before it.
void WorkerBackend::take_decoded(const WorkerMessage& message) {
  decode_beats_ = 0;
  const std::lock_guard lock(mutex_);
  const auto found = inboxes_.find(message.id);
  if (found == inboxes_.end()) return;
  Inbox& inbox = found->second;
  if (message.kind == WorkerWord::kAdmitted) inbox.has_room = true;
  if (message.kind == WorkerWord::kRefused) inbox.refused = Refused{message.why, message.message};
  if (auto step = said_step(message))
    (inbox.has_first ? inbox.steps : inbox.early).push_back(std::move(*step));
  news_.notify_all();
}

// The share decides which of the two is asked. False: it has not admitted the prompt.
bool WorkerBackend::ask(generate::Request request, bool Inbox::*answered) {
  const int64_t id = request.id;
  const bool decodes = request.share == Share::kDecode;
  const FrontMessage message{.kind = FrontWord::kRequest, .request = std::move(request)};
  if (decodes ? !decode_->say(message) : !line_->say(message)) return false;
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

bool WorkerBackend::may_return() const {
  const std::lock_guard lock(mutex_);
  return may_return_;
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
  line_->say({.kind = FrontWord::kCancel, .request = {.id = id}});
}

}  // namespace tombolo::serve
