#include "perform/handover/decode_front.h"

#include <utility>

namespace tombolo::handover {

using generate::WorkerWord;

namespace {

constexpr SimDuration kGreetingMax{10'000'000'000};
constexpr SimDuration kGoodbyeMax{500'000'000};

}  // namespace

Result<std::unique_ptr<DecodeFront>> DecodeFront::open(
    const generate::DecodePlace& place, std::function<void(const generate::WorkerMessage&)> hear,
    std::function<void(const std::string&)> end, HostServices host) {
  std::unique_ptr<DecodeFront> out(new DecodeFront(std::move(host)));
  Threads& threads = out->host_.threads;
  out->hear_ = std::move(hear);
  out->end_ = std::move(end);
  out->endpoint_ = TRY(open_endpoint(place, kFrontRank, out->host_));
  TRY(call_decode_worker(*out->endpoint_, place, kFrontRank, threads));
  const link::Received greeting =
      TRY(out->endpoint_->receive(kDecodeRank, kDecodeTag, threads.now() + kGreetingMax));
  const auto ready = TRY(generate::parse_worker(to_text(greeting.payload)));
  if (ready.kind != WorkerWord::kReady || !ready.facts)
    return failed("the decode worker began with something else than its model");
  out->facts_ = *ready.facts;
  out->listener_ = threads.start([front = out.get()] { front->listen(); });
  return out;
}

DecodeFront::~DecodeFront() {
  if (endpoint_) hang_up();
}

void DecodeFront::hang_up() {
  endpoint_->abort({ErrorCode::kFailed, "the front has ended", {}, ""});
  listener_.reset();
  if (!std::exchange(closed_, true))
    static_cast<void>(endpoint_->close(host_.threads.now() + kGoodbyeMax));
}

bool DecodeFront::say(const generate::FrontMessage& message) {
  return static_cast<bool>(
      endpoint_->send(kDecodeRank, kDecodeTag, to_payload(generate::to_line(message))));
}

void DecodeFront::listen() {
  for (;;) {
    const auto received = endpoint_->receive(kDecodeRank, kDecodeTag, kNever);
    if (!received) return end_(received.error().message);
    const auto message = generate::parse_worker(to_text(received->payload));
    if (!message) return end_("it said what is no message");
    hear_(*message);
  }
}

}  // namespace tombolo::handover
