#include "perform/worker/prompt_door.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"
#include "steer/prefill/gap_admission.h"

namespace tombolo::worker {

using generate::FrontMessage;
using generate::FrontWord;
using generate::ShardWord;
using generate::Share;
using generate::WorkerMessage;
using generate::WorkerWord;

namespace {

constexpr int kGlanceMs = 50;  // at the sender, while there is nothing else to do

// Estimates a layer by the slowest of the last layers like it; nullopt before the first one. If a
// longer prompt was faster than a shorter one, it is taken to be as slow.
std::optional<prefill::DurationTable> times_of(const generate::Engine& engine, int64_t positions) {
  std::vector<prefill::DurationTable::Row> rows;
  Seconds layer, ends;
  for (int64_t tokens = 1;; tokens = std::min(2 * tokens, positions)) {
    const SimDuration body = engine.expect({.rows = tokens});
    const SimDuration whole = engine.expect({.rows = tokens, .head = true});
    layer = std::max(layer, seconds(body));
    ends = std::max(ends, seconds(whole - body));
    rows.push_back({.tokens = tokens, .layer = layer, .ends = ends});
    if (tokens == positions) break;
  }
  auto table = prefill::DurationTable::make(std::move(rows));
  return table ? std::optional(*table) : std::nullopt;
}

}  // namespace

PromptDoor::PromptDoor(const generate::Shard& shard, const generate::EngineLimits& limits,
                       int socket, handover::HostServices host, PromptGaps gaps, OtherShards others)
    : socket_(socket),
      facts_(shard.facts()),
      host_(std::move(host)),
      gaps_(gaps),
      others_(std::move(others)),
      engine_(shard, limits, host_.threads, others_.first_number) {
  say({.kind = WorkerWord::kReady, .facts = model_facts(limits)});
}

// Facts of the whole model: of several shards the largest limits how many tokens have room.
generate::WorkerFacts PromptDoor::model_facts(const generate::EngineLimits& limits) const {
  generate::WorkerFacts out{.vocabulary = facts_.model.vocabulary,
                            .positions = facts_.model.sequence,
                            .weight_bytes = facts_.weight_bytes,
                            .kv_bytes_per_token = facts_.kv().bytes(1),
                            .kv_bytes_max = limits.kv_bytes,
                            .weights_digest = facts_.weights_digest};
  if (others_.shards == 1) return out;
  const generate::KvShape whole{.layers = facts_.model.layers, .width = facts_.kv().width};
  const generate::KvShape largest{.layers = limits.layers_counted, .width = whole.width};
  out.weight_bytes = static_cast<int64_t>(sizeof(float)) * model::parameters(facts_.model);
  out.kv_bytes_per_token = whole.bytes(1);
  out.kv_bytes_max = whole.bytes(limits.kv_bytes / largest.bytes(1));
  return out;
}

PromptDoor::~PromptDoor() { ::close(socket_); }

Result<bool> PromptDoor::listen(bool wait) {
  hear_sender();
  if (gone_) return false;
  const int patience = sender_ ? kGlanceMs : -1;
  const auto events = static_cast<short>(outbox_.empty() ? POLLIN : POLLIN | POLLOUT);
  pollfd asked{.fd = socket_, .events = events, .revents = 0};
  const int ready = poll(&asked, 1, wait && engine_.idle() ? patience : 0);
  if (ready == 0 || (ready < 0 && errno == EINTR)) return true;
  flush();
  if ((asked.revents & ~POLLOUT) == 0) return !gone_;
  std::array<char, 65'536> bytes;
  const ssize_t got = recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (got < 0) return failed(fmt::format("reading prompts: {}", std::strerror(errno)));
  if (got == 0) return false;
  TRY(lines_.add({bytes.data(), static_cast<size_t>(got)}));
  while (const auto line = lines_.next()) take(TRY(generate::parse_front(*line)));
  hand_over();
  return !gone_;
}

void PromptDoor::do_layer() {
  engine_.do_layer([&](const generate::EngineEvent& event) { say(message_of(event)); });
  hand_over();
}

bool PromptDoor::do_layer_until(SimTime until) {
  const bool done =
      engine_.work_once(until, [&](const generate::EngineEvent& event) { say(message_of(event)); });
  if (done) hand_over();
  return done;
}

Status PromptDoor::arrive(const link::Payload& bytes) {
  const generate::ShardMessage message = TRY(generate::decode_shard_message(bytes));
  const bool of_decode = decode_.prompt != 0 && message.prompt == decode_.prompt;
  if (message.word == ShardWord::kDecode) {
    if (of_decode) say_linked();  // or else of a front that has left
    return {};
  }
  if (of_decode && message.word == ShardWord::kFailed) {
    give_up(message.text);
    return {};
  }
  const Status arrived =
      engine_.arrive(message, [&](const generate::EngineEvent& event) { say(message_of(event)); });
  hand_over();
  return arrived;
}

void PromptDoor::hand_over() {
  for (const generate::ShardMessage& message : engine_.take_departed()) others_.say(message);
  for (generate::HandedOver& prompt : engine_.take_handed_over()) sender_->give(std::move(prompt));
}

void PromptDoor::hear_sender() {
  if (!sender_) return;
  const bool alone = others_.shards == 1;
  const handover::CacheSender::News news = sender_->news();
  for (const int64_t number : news.left) {
    if (alone) {
      engine_.release(number);
    } else {  // the message comes back when all ranks have sent theirs
      others_.say({.word = ShardWord::kSent, .prompt = number});
    }
  }
  if (news.linked && alone) say_linked();
  if (news.linked && !alone) others_.say(decode_);
  if (news.failed) give_up(*news.failed);
}

void PromptDoor::say_linked() {
  linked_ = true;
  say({.kind = WorkerWord::kLinked});
}

void PromptDoor::give_up(const std::string& why) {
  say({.kind = WorkerWord::kFailed, .message = why});
  gone_ = true;
}

std::optional<generate::Refused> PromptDoor::admit(const generate::Request& request) {
  if (request.share == Share::kDecode)
    return generate::Refused{generate::Refusal::kInvalid, "a decode worker's share"};
  if (request.share == Share::kPrefill && !sender_)
    return generate::Refused{generate::Refusal::kInvalid, "no decode worker was named"};
  // A rank that does not know the decode worker yet would not know where to send its cache.
  if (request.share == Share::kPrefill && !linked_)
    return generate::Refused{generate::Refusal::kBusy, "the decode worker is not linked yet"};
  return engine_.admit(request);
}

void PromptDoor::take(const FrontMessage& message) {
  const int64_t id = message.request.id;
  if (message.kind == FrontWord::kCancel) return engine_.cancel(id);
  if (message.kind == FrontWord::kBeat) return say({.kind = WorkerWord::kBeat});
  if (message.kind == FrontWord::kDecode) return take_decode_place(*message.decode);
  auto refused = admit(message.request);
  const bool alone = message.request.flex && engine_.requests() <= others_.shards;
  if (!refused && !alone && !fits_into_gaps(message.request)) {
    engine_.cancel(id);
    refused = {generate::Refusal::kBusy,
               fmt::format("the gaps of training leave no room for its first token within {}",
                           brief(seconds(gaps_.within)))};
  }
  if (!refused) return say({.kind = WorkerWord::kAdmitted, .id = id});
  say({.kind = WorkerWord::kRefused, .id = id, .why = refused->why, .message = refused->message});
}

// The other ranks link to it one after the other, each when the previous one is linked
// (shard_filler.h).
void PromptDoor::take_decode_place(const generate::DecodePlace& place) {
  if (sender_) return;
  if (others_.shards > 1) {
    decode_ = {.word = ShardWord::kDecode,
               .prompt = engine_.draw_number(),
               .text = to_line(FrontMessage{.kind = FrontWord::kDecode, .decode = place})};
    if (decode_.text.size() > generate::kShardTextMax)
      return give_up("the names of a decode worker's place are too long for the other ranks");
  }
  sender_ = std::make_unique<handover::CacheSender>(place, host_);
}

// The prompt that was admitted last, behind one pass of each of the others. Each of several shards has
// as much of the time as the others.
bool PromptDoor::fits_into_gaps(const generate::Request& request) {
  if (!gaps_.windows || !gaps_.windows->period_begin()) return true;
  const auto times = times_of(engine_, facts_.model.sequence);
  if (!times) return true;
  const SimDuration within{gaps_.within.ns / others_.shards};
  const auto in_time = [&](const std::vector<int64_t>& passes) {
    return prefill::end_of_passes(*gaps_.windows, *times, facts_.slice.layers, passes, within,
                                  host_.threads.now())
        .has_value();
  };
  if (in_time(engine_.turns())) return true;
  // Prompts that may wait are asked about repeatedly, so they do not count here.
  const int64_t tokens = std::ssize(request.tokens);
  if (!request.flex && !in_time({tokens})) engine_.doubt();
  return false;
}

void PromptDoor::say(const WorkerMessage& message) {
  outbox_ += to_line(message) + "\n";
  flush();
  if (outbox_.size() > kOutboxMax) gone_ = true;
}

void PromptDoor::flush() {
  while (!outbox_.empty()) {
    const ssize_t sent = send(socket_, outbox_.data(), outbox_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) {
      gone_ = gone_ || errno != EAGAIN;
      return;
    }
    outbox_.erase(0, static_cast<size_t>(sent));
  }
}

}  // namespace tombolo::worker
