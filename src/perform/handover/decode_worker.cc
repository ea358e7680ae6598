#include "perform/handover/decode_worker.h"

#include <utility>

namespace tombolo::handover {

using generate::Engine;
using generate::FrontMessage;
using generate::FrontWord;
using generate::KvIntake;
using generate::Share;
using generate::WorkerMessage;
using generate::WorkerWord;
using transport::Endpoint;

namespace {

constexpr SimDuration kGlance{100'000'000};
constexpr SimDuration kPatience{5'000'000'000};  // until a port that was just left is free again

}  // namespace

Result<std::unique_ptr<DecodeWorker>> DecodeWorker::listen(
    const generate::Shard& shard, const generate::EngineLimits& limits,
    const generate::DecodePlace& place, std::function<void(const std::string&)> log,
    HostServices host) {
  std::unique_ptr<DecodeWorker> out(
      new DecodeWorker(shard, limits, place, std::move(log), std::move(host)));
  TRY(out->open());
  return out;
}

Status DecodeWorker::open() {
  Endpoint::Options options = TRY(endpoint_options(place_, kDecodeRank));
  options.listen_address = place_.host;
  options.port = port_ != 0 ? port_ : static_cast<uint16_t>(place_.port);
  const SimTime until = clock_.now() + (port_ != 0 ? kPatience : SimDuration{});
  auto endpoint = host_.sockets.open(options, clock_);
  while (!endpoint && clock_.now() < until) {
    clock_.sleep_until(clock_.now() + kGlance);
    endpoint = host_.sockets.open(options, clock_);
  }
  if (!endpoint) return fail(endpoint.error());
  endpoint_ = std::move(*endpoint);
  port_ = endpoint_->port();
  endpoint_->welcome_all(kDecodeTag);
  return {};
}

generate::WorkerFacts DecodeWorker::facts() const {
  const generate::ShardFacts& facts = shard_.facts();
  return {.vocabulary = facts.model.vocabulary,
          .positions = facts.model.sequence,
          .weight_bytes = facts.weight_bytes,
          .kv_bytes_per_token = facts.kv().bytes(1),
          .kv_bytes_max = limits_.kv_bytes,
          .weights_digest = facts.weights_digest};
}

Status DecodeWorker::serve(const std::atomic<bool>& stop) {
  for (;;) {
    const std::string why = serve_those(stop);
    endpoint_->abort({ErrorCode::kFailed, why, {}, ""});
    static_cast<void>(endpoint_->close(clock_.now() + kGlance));  // they hear it
    endpoint_.reset();
    if (stop) return {};
    log_(why + "; waiting for the next front");
    TRY(open());
  }
}

std::string DecodeWorker::serve_those(const std::atomic<bool>& stop) {
  Engine engine(shard_, limits_, clock_);
  KvIntake intake(engine);
  while (!stop) {
    const SimTime until = engine.idle() ? clock_.now() + kGlance : clock_.now();
    if (const auto news = endpoint_->next(until)) {
      if (const auto* end = std::get_if<Error>(&news->what)) {
        const char* who = news->peer == kFrontRank ? "the front" : "who reads prompts";
        return fmt::format("{} has gone: {}", who, end->message);
      }
      if (const Status taken = take(engine, intake, *news); !taken) return taken.error().message;
    } else if (!engine.idle()) {
      engine.do_layer([&](const generate::EngineEvent& event) { say(message_of(event)); });
    }
  }
  return "the decode worker was stopped";
}

Status DecodeWorker::take(Engine& engine, KvIntake& intake, const Endpoint::News& news) {
  const auto* received = std::get_if<link::Received>(&news.what);
  if (!received) {
    if (news.peer == kFrontRank) say({.kind = WorkerWord::kReady, .facts = facts()});
    return {};
  }
  if (news.peer >= kPrefillRank) return intake.take(received->payload);
  return take_line(engine, to_text(received->payload));
}

Status DecodeWorker::take_line(Engine& engine, const std::string& line) {
  const FrontMessage message = TRY(generate::parse_front(line));
  const int64_t id = message.request.id;
  if (message.kind == FrontWord::kCancel) {
    engine.cancel(id);
    return {};
  }
  if (message.kind == FrontWord::kBeat) {
    say({.kind = WorkerWord::kBeat});
    return {};
  }
  if (message.kind != FrontWord::kRequest || message.request.share != Share::kDecode)
    return failed("the front asks for what is no decode worker's");
  if (const auto refused = engine.admit(message.request)) {
    say({.kind = WorkerWord::kRefused, .id = id, .why = refused->why, .message = refused->message});
  } else {
    say({.kind = WorkerWord::kAdmitted, .id = id});
  }
  return {};
}

// A front that has gone is noticed by the next news.
void DecodeWorker::say(const WorkerMessage& message) {
  static_cast<void>(endpoint_->send(kFrontRank, kDecodeTag, to_payload(to_line(message))));
}

}  // namespace tombolo::handover
