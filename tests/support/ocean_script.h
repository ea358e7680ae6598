// A rank that says to its launcher what a test wants, or a launcher that says it to its rank, over the
// simulated network: messages that join/control_message.h knows, in any order, or bytes that are none.
#pragma once

#include <algorithm>
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

// Says what it is told to, and in between what leases are about, unless it is mute.
class ScriptedEnd {
 public:
  ScriptedEnd(Waters& waters, std::unique_ptr<Endpoint> endpoint, int32_t other)
      : waters_(waters), endpoint_(std::move(endpoint)), other_(other) {}
  virtual ~ScriptedEnd() = default;

  Waters& waters() { return waters_; }
  Endpoint& endpoint() { return *endpoint_; }
  void mute() { is_mute_ = true; }
  void hang_up() { endpoint_.reset(); }
  bool say(const join::ControlMessage& message) { return say_bytes(join::encode(message)); }
  bool say_bytes(link::Payload bytes) {
    return endpoint_->send(other_, join::kControlTag, std::move(bytes), {}).has_value();
  }
  // The next message that is not about leases.
  Said hear(SimDuration patience = SimDuration{100'000'000'000}) {
    const SimTime until = waters_.now() + patience;
    while (waters_.now() < until) {
      if (!is_mute_) speak();
      const SimTime look = std::min(until, waters_.now() + kBeat);
      const auto received = endpoint_->receive(other_, join::kControlTag, look);
      if (!received && waters_.now() < look) return std::nullopt;  // it has gone
      if (!received) continue;
      const auto message = join::decode(received->payload);
      CHECK(message, "{}", message.error().message);
      if (is_about_leases(*message)) continue;
      return *message;
    }
    return std::nullopt;
  }
  // Until a message of this kind comes; others are passed over.
  template <typename Message>
  std::optional<Message> hear_a(SimDuration patience = SimDuration{100'000'000'000}) {
    const SimTime until = waters_.now() + patience;
    while (auto said = hear(until - waters_.now())) {
      if (auto* wanted = std::get_if<Message>(&*said)) return std::move(*wanted);
    }
    return std::nullopt;
  }

 protected:
  static constexpr SimDuration kBeat{500'000'000};
  bool is_mute() const { return is_mute_; }

 private:
  virtual void speak() {}
  virtual bool is_about_leases(const join::ControlMessage& message) = 0;

  Waters& waters_;
  std::unique_ptr<Endpoint> endpoint_;
  const int32_t other_;
  bool is_mute_ = false;
};

// A rank, or a spare: says that it is alive.
class ScriptedPeer : public ScriptedEnd {
 public:
  using ScriptedEnd::ScriptedEnd;

 private:
  void speak() override {
    if (waters().now() < beats_at_) return;
    beats_at_ = waters().now() + kBeat;  // a grant comes for each, and would be answered at once
    say(join::BeatReport{{.epoch = epoch_, .sent = waters().now()}});
  }
  bool is_about_leases(const join::ControlMessage& message) override {
    const auto* granted = std::get_if<join::LeaseGrant>(&message);
    if (granted) epoch_ = granted->grant.epoch;
    return granted != nullptr;
  }

  SimTime beats_at_;
  uint64_t epoch_ = 0;
};

// A launcher of one rank: grants it leases of an epoch.
class ScriptedLauncher : public ScriptedEnd {
 public:
  using ScriptedEnd::ScriptedEnd;
  void set_epoch(uint64_t epoch) { epoch_ = epoch; }
  void set_lease(SimDuration length) { lease_ = length; }

 private:
  bool is_about_leases(const join::ControlMessage& message) override {
    const auto* beat = std::get_if<join::BeatReport>(&message);
    if (!beat) return false;
    if (is_mute()) return true;
    say(join::LeaseGrant{
        {.epoch = epoch_, .sent = beat->beat.sent, .length = lease_, .working = true}});
    return true;
  }

  uint64_t epoch_ = 1;
  SimDuration lease_{60'000'000'000};
};

}  // namespace tombolo::ocean
