// A rank in the ocean that says to its launcher what a test wants: messages that join/control_message.h knows,
// in any order, or bytes that are none.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "perform/join/control_message.h"
#include "support/ocean_sockets.h"

namespace tombolo::ocean {

// What the other side said, or nothing: it has gone, or said nothing for `patience`.
using Said = std::optional<join::ControlMessage>;

// An endpoint that says what it is told to, and in between that it is alive, unless it is mute.
class ScriptedPeer {
 public:
  ScriptedPeer(Waters& waters, std::unique_ptr<Endpoint> endpoint, int32_t other)
      : waters_(waters), endpoint_(std::move(endpoint)), other_(other) {}

  Waters& waters() { return waters_; }
  Endpoint& endpoint() { return *endpoint_; }
  void mute() { is_mute_ = true; }
  bool say(const join::ControlMessage& message) { return say_bytes(join::encode(message)); }
  bool say_bytes(link::Payload bytes) {
    return endpoint_->send(other_, join::kControlTag, std::move(bytes), {}).has_value();
  }
  // The next message that is not about leases.
  Said hear(SimDuration patience = SimDuration{100'000'000'000}) {
    const SimTime until = waters_.now() + patience;
    while (waters_.now() < until) {
      beat();
      const SimTime look = std::min(until, waters_.now() + kBeat);
      const auto received = endpoint_->receive(other_, join::kControlTag, look);
      if (!received && waters_.now() < look) return std::nullopt;  // it has gone
      if (!received) continue;
      const auto message = join::decode(received->payload);
      CHECK(message, "{}", message.error().message);
      if (answer(*message)) continue;
      return *message;
    }
    return std::nullopt;
  }
  // Until a message of this kind comes; others are passed over.
  template <typename Message>
  std::optional<Message> hear_a() {
    while (auto said = hear()) {
      if (auto* wanted = std::get_if<Message>(&*said)) return std::move(*wanted);
    }
    return std::nullopt;
  }

 private:
  static constexpr SimDuration kBeat{500'000'000};

  void beat() {
    if (is_mute_ || waters_.now() < beats_at_) return;
    beats_at_ = waters_.now() + kBeat;  // a grant comes for each, and would be answered at once
    say(join::BeatReport{{.epoch = epoch_, .sent = waters_.now()}});
  }
  bool answer(const join::ControlMessage& message) {
    const auto* granted = std::get_if<join::LeaseGrant>(&message);
    if (granted) epoch_ = granted->grant.epoch;
    return granted != nullptr;
  }

  Waters& waters_;
  std::unique_ptr<Endpoint> endpoint_;
  const int32_t other_;
  bool is_mute_ = false;
  SimTime beats_at_;
  uint64_t epoch_ = 0;
};

}  // namespace tombolo::ocean
