// The ocean's network: what endpoint.h promises, in simulated time.
//
// Hosts have addresses 10.0.0.H; between two of them there is a path with a latency of its own,
// which can be cut (nothing arrives until it is whole again) or slow (what is sent takes seconds
// longer, each message another time), and on which links can be reset.
// Hellos are written and checked by the code that sockets use (link/handshake.h). Below that a link
// is modelled: messages arrive in order, once, and late where the path is cut; with a grace on both
// sides a link outlives resets and cuts of up to that length, without one it does not. That the
// real links keep this promise is proved in an ocean of their own (link/resume_ocean_test.cc).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "perform/link/frame.h"
#include "perform/transport/endpoint.h"
#include "perform/transport/receive_timeout.h"
#include "support/ocean_splice.h"

namespace tombolo::ocean {

class OceanEndpoint final : public Endpoint, public Belonging {
 public:
  OceanEndpoint(Sea& sea, Waters& waters, Options options)
      : sea_(sea), waters_(waters), options_(std::move(options)), changed_(sea.ocean()) {
    if (sea_.bug_ == Bug::kLinksHaveNoGrace) options_.grace = {};
  }
  // A listener that is being closed still answers for a moment.
  ~OceanEndpoint() override {
    const SimTime closed =
        waters_.now() + SimDuration{static_cast<int64_t>(sea_.random().below(kClosingMax.ns))};
    while (aborted_ && !gone_ && waters_.now() < closed) pause(closed);
    leave(false);
  }

  Status listen() {
    const int host = waters_.process().host;
    port_ = options_.port != 0 ? options_.port : ++sea_.next_port_;
    if (sea_.doors_.contains({host, port_}))
      return unusable(fmt::format("port {} on {} is taken", port_, options_.listen_address));
    sea_.doors_[{host, port_}] = this;
    waters_.process().belongings.push_back(this);
    return {};
  }
  void process_ended(bool silently) override { leave(silently); }

  uint16_t port() const override { return port_; }

  Status connect(int32_t rank, const std::string& host, uint16_t port, const link::LinkShape& shape,
                 SimTime deadline) override {
    static_cast<void>(shape);
    if (aborted_) return fail(*aborted_);
    Peer& p = peers_[rank];
    if (p.claimed) return failed(fmt::format("there is a link to rank {} already", rank));
    p.claimed = true;
    const uint64_t attempt = ++sea_.attempts_;
    p.gathering.expect(attempt, 1);
    const Status linked = call(rank, p, attempt, host, port, deadline);
    if (linked || p.up) return {};
    p.claimed = false;
    p.gathering.start_over();
    return linked;
  }
  Status await_peer(int32_t rank, const link::LinkShape& shape, SimTime deadline) override {
    static_cast<void>(shape);
    if (aborted_) return fail(*aborted_);
    Peer& p = peers_[rank];
    if (p.claimed) return failed(fmt::format("there is a link to rank {} already", rank));
    p.claimed = true;
    while (!p.up && !aborted_ && waters_.now() < deadline) pause(deadline);
    if (p.up) return {};
    p.claimed = false;
    if (aborted_) return fail(*aborted_);
    return fail({ErrorCode::kLostPeer, fmt::format("rank {} did not call in time", rank)});
  }
  Status meet(int32_t rank, const std::string& host, uint16_t port, const link::LinkShape&,
              SimTime deadline) override {
    if (aborted_) return fail(*aborted_);
    Peer& p = peers_[rank];
    if (p.claimed) return failed(fmt::format("there is a link to rank {} already", rank));
    p.claimed = true;
    p.refused.reset();
    const uint64_t id = ++sea_.attempts_;
    if (options_.identity.rank < rank) p.gathering.expect(id, 1);
    const Status met = wait_at_splice(rank, p, id, host, port, deadline);
    sea_.splice_calls_.erase(id);
    if (met || p.up) return {};
    p.claimed = false;
    p.gathering.start_over();
    return met;
  }

  Status send(int32_t rank, link::Tag tag, link::Payload payload, link::Urgency) override {
    if (aborted_) return fail(*aborted_);
    const SimTime now = waters_.now();
    if (rank == options_.identity.rank) {
      own_[tag].push_back({std::move(payload), now, now});
      changed_.notify_all();
      return {};
    }
    Peer& p = peers_[rank];
    if (p.ended) return fail(*p.ended);
    if (!p.up || closing_) return failed(fmt::format("there is no link to rank {}", rank));
    if (std::exchange(p.wire->damages[p.end], false))
      payload = sea_.carry_damaged(p.wire, tag, std::move(payload));
    if (p.ended) return fail(*p.ended);  // it was a link that ends with its connection
    sea_.send(p.wire, p.end, [wire = p.wire, end = p.end, tag, now, payload = std::move(payload)] {
      if (OceanEndpoint* other = wire->ends[1 - end])
        other->take(wire->ranks[end], tag, payload, now);
    });
    return {};
  }

  Result<Came> receive_any(std::span<const Awaited> wanted, SimTime deadline) override {
    while (true) {
      std::optional<Error> gone;
      for (size_t i = 0; i < wanted.size(); ++i) {
        const auto& [rank, tag] = wanted[i];
        const bool is_own = rank == options_.identity.rank;
        if (aborted_) return fail(*aborted_);
        if (!is_own && !peers_[rank].claimed)
          return failed(fmt::format("there is no link to rank {}", rank));
        auto& inbox = is_own ? own_ : peers_[rank].inbox;
        const auto at = inbox.find(tag);
        if (at != inbox.end()) return Came{i, pop(inbox, at)};
        if (!is_own && peers_[rank].ended && !gone)
          gone = Error(*peers_[rank].ended).during("waiting for " + link::text(tag));
      }
      if (gone) return fail(*gone);
      if (waters_.now() >= deadline)
        return fail(transport::receive_timeout(wanted.front().peer, wanted.front().tag));
      pause(deadline);
    }
  }

  void welcome_all(link::Tag tag) override {
    welcomed_ = tag;
    for (int32_t rank = 0; rank < options_.identity.ranks; ++rank) peers_[rank].claimed = true;
  }
  Result<News> next(SimTime deadline) override {
    while (true) {
      if (aborted_) return fail(*aborted_);
      for (auto& [rank, p] : peers_) {
        if (!p.up || p.told_end) continue;
        if (!std::exchange(p.told_up, true)) return News{rank, Up{}};
        const auto at = p.inbox.find(*welcomed_);
        if (at != p.inbox.end()) return News{rank, pop(p.inbox, at)};
        if (!p.ended) continue;
        p.told_end = true;
        return News{rank, *p.ended};
      }
      if (waters_.now() >= deadline) return failed("there was no news in time");
      pause(deadline);
    }
  }

  uint64_t queued_bytes() const override { return 0; }
  std::vector<link::LinkStatistics> statistics() override { return {}; }
  Status flush(SimTime) override { return aborted_ ? fail(*aborted_) : Status(); }

  void abort(Error error) override {
    if (aborted_) return;
    aborted_ = error;
    const std::string reason =
        error.code == ErrorCode::kLostPeer
            ? error.message
            : fmt::format("rank {} gave up: {}", options_.identity.rank, error.message);
    for (auto& [rank, p] : peers_) {
      if (p.up && !p.ended) tell_end(p, {ErrorCode::kLostPeer, reason});
    }
    changed_.notify_all();
  }
  // Until every peer has heard the goodbye, or is gone.
  Status close(SimTime deadline) override {
    closing_ = true;
    Status status;
    for (auto& [rank, p] : peers_) {
      if (!p.up || p.ended) continue;
      tell_end(p, {ErrorCode::kFailed,
                   fmt::format("rank {} finished and closed its link", options_.identity.rank)});
      while (p.wire->streams[p.end].moving && !p.ended && !aborted_ && waters_.now() < deadline)
        pause(std::min(deadline, waters_.now() + SimDuration{10'000'000}));
      if (p.wire->streams[p.end].moving && status)
        status = failed(fmt::format("rank {} did not confirm the last bytes in time", rank));
    }
    if (!aborted_) aborted_ = Error{ErrorCode::kFailed, "the endpoint is closed"};
    parted_ = true;
    return status;
  }

  // --- What the sea does to it.

  // A hello has come. The error is what the caller reads.
  Status greet(const link::Frame& hello, OceanEndpoint& caller,
               const OceanSpliceListener* listener = nullptr) {
    if (aborted_ || closing_) return fail(link::about_to_end());
    const link::Caller who = TRY(link::check_hello(options_.identity, hello));
    Peer& p = peers_[who.rank];
    auto welcome = p.gathering.add(who, false);
    if (!welcome && sea_.bug_ == Bug::kSeatIsNotFenced) {
      p = Peer{.claimed = true};
      welcome = p.gathering.add(who, false);
    }
    if (!welcome) {
      if (options_.on_duplicate && welcome.error().cause == ErrorCause::kDuplicateRank)
        options_.on_duplicate(who.rank);
      return fail(welcome.error());
    }
    const auto wire = std::make_shared<Wire>();
    wire->ends[0] = &caller;
    wire->ends[1] = this;
    wire->ranks[0] = who.rank;
    wire->ranks[1] = options_.identity.rank;
    wire->hosts[0] = caller.waters_.process().host;
    wire->hosts[1] = waters_.process().host;
    if (listener) {
      wire->via = listener->host();
      wire->listener = listener->number();
    }
    wire->grace = std::min(caller.options_.grace, options_.grace);
    wire->ended_max = options_.ended_max.ns > 0 ? options_.ended_max : wire->grace;
    wire->silence_max = std::min(caller.options_.silence_max, options_.silence_max);
    sea_.wires_.push_back(wire);
    come_up(p, wire, 1);
    caller.come_up(caller.peers_[options_.identity.rank], wire, 0);
    return {};
  }
  // Two whose calls were joined: the lower one says hello, until the handshake's time is over.
  static void introduce(Sea& sea, OceanSpliceListener::Pair pair, uint64_t listener,
                        SimTime until) {
    const auto first = sea.splice_calls_.find(pair.first);
    const auto second = sea.splice_calls_.find(pair.second);
    const auto none = sea.splice_calls_.end();
    const bool over = !sea.splices_.contains(listener) || sea.ocean().now() >= until;
    const bool both = first != none && second != none;
    if (over || !both || !first->second.first->reaches(listener) ||
        !second->second.first->reaches(listener)) {
      for (const auto& call : {first, second}) {
        if (over && call != none)
          call->second.first->refuse(call->second.second,
                                     {.message = "nobody spoke at the splice"});
      }
      if (!over) {
        sea.ocean().at(sea.ocean().now() + SimDuration{200'000'000},
                       [&sea, pair, listener, until] { introduce(sea, pair, listener, until); });
      }
      return;
    }
    const bool in_order =
        first->second.first->options_.identity.rank < second->second.first->options_.identity.rank;
    const auto& [id, lower] = in_order ? *first : *second;
    const auto& [other_id, higher] = in_order ? *second : *first;
    link::FrameDecoder decoder(link::kUnauthenticatedPayloadMax);
    Status said;
    CHECK(decoder.feed(
              link::hello_frame(lower.first->options_.identity, lower.second, {.attempt = id},
                                {.grace = lower.first->options_.grace}),
              [&, caller = lower.first, called = higher.first](const link::Frame& hello) -> Status {
                said = called->greet(hello, *caller, sea.splices_.at(listener));
                return {};
              }),
          "a hello that cannot be read");
    if (said) return;
    for (const auto& call : {lower, higher}) call.first->refuse(call.second, said.error());
  }
  void take(int32_t from, link::Tag tag, link::Payload payload, SimTime sent) {
    Peer& p = peers_[from];
    if (p.ended || (sea_.swallows_ && sea_.swallows_(tag, payload))) return;
    if (sea_.holds_up_) {
      const auto until = sea_.holds_up_(from, options_.identity.rank, tag, payload);
      if (until && *until > waters_.now()) {
        sea_.ocean().at(*until, [this, from, tag, payload = std::move(payload), sent] {
          take(from, tag, payload, sent);
        });
        return;
      }
    }
    p.inbox[tag].push_back({std::move(payload), sent, waters_.now()});
    changed_.notify_all();
  }
  void hear_end(int32_t from, const Error& error) {
    Peer& p = peers_[from];
    if (p.ended) return;
    p.ended = error;
    changed_.notify_all();
  }

 private:
  using Box = std::map<link::Tag, std::deque<link::Received>>;
  struct Peer {
    link::Gathering gathering;
    WirePtr wire;
    int end = 0;  // ours, of the wire
    bool claimed = false, up = false, told_up = false, told_end = false;
    std::optional<Error> ended;
    std::optional<Error> refused;  // at a splice
    Box inbox;
  };

  void pause(SimTime until) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    changed_.wait(lock, until);
  }
  static link::Received pop(Box& box, Box::iterator at) {
    link::Received first = std::move(at->second.front());
    at->second.pop_front();
    if (at->second.empty()) box.erase(at);
    return first;
  }
  void come_up(Peer& p, const WirePtr& wire, int end) {
    p.wire = wire;
    p.end = end;
    p.up = true;
    changed_.notify_all();
  }
  // In the order of what was sent.
  void tell_end(Peer& p, const Error& error) {
    sea_.send(p.wire, p.end, [wire = p.wire, end = p.end, error] {
      if (OceanEndpoint* other = wire->ends[1 - end]) other->hear_end(wire->ranks[end], error);
    });
  }

  bool reaches(uint64_t listener) const {
    const auto at = sea_.splices_.find(listener);
    return at != sea_.splices_.end() && !sea_.is_cut(waters_.process().host, at->second->host()) &&
           !sea_.ocean().is_suspended(at->second->host());
  }
  void refuse(int32_t rank, const Error& why) {
    peers_[rank].refused =
        Error{.code = ErrorCode::kLostPeer,
              .message = fmt::format("no link to rank {}: {}", rank, why.message),
              .cause = why.cause};
    changed_.notify_all();
  }
  void rest() { pause(waters_.now() + SimDuration{100'000'000}); }
  Status wait_at_splice(int32_t rank, Peer& p, uint64_t id, const std::string& host, uint16_t port,
                        SimTime deadline) {
    const auto lost = [&](const std::string& why) {
      return fail({ErrorCode::kLostPeer, fmt::format("no link to rank {}: {}", rank, why), {}, {}});
    };
    uint64_t listener = 0;
    while (!aborted_ && !p.up && listener == 0) {
      if (waters_.now() >= deadline) return lost("the coordinator did not answer");
      const OceanSpliceListener* there = find_splice(sea_, host, port);
      if (there && reaches(there->number())) listener = there->number();
      rest();
    }
    if (aborted_) return fail(*aborted_);
    if (!sea_.splices_.contains(listener)) return lost("the coordinator hung up");
    sea_.splice_calls_[id] = {this, rank};
    const auto answer = sea_.splices_.at(listener)->call(
        id, link::encode_preface(options_.identity.token, {options_.identity.rank, rank, 0}));
    if (!answer) return lost(answer.error().message);
    if (answer->replaced) sea_.splice_calls_.erase(*answer->replaced);
    if (answer->joined)
      introduce(sea_, *answer->joined, listener, waters_.now() + options_.handshake_max);
    while (!aborted_ && !p.up && waters_.now() < deadline) {
      if (p.refused) return fail(*p.refused);
      if (!sea_.splices_.contains(listener) || !sea_.splice_calls_.contains(id))
        return lost("the coordinator hung up before that rank called it");
      rest();
    }
    if (sea_.splices_.contains(listener)) sea_.splices_.at(listener)->hang_up(id);
    if (aborted_) return fail(*aborted_);
    return p.up ? Status() : lost("it did not call the coordinator in time");
  }

  Status call(int32_t rank, Peer& p, uint64_t attempt, const std::string& host, uint16_t port,
              SimTime deadline) {
    const auto own_host = waters_.process().host;
    const link::Identity& self = options_.identity;
    while (!aborted_ && !p.up) {
      int there = -1;
      const OceanEndpoint* called = nullptr;
      for (const auto& [at, listener] : sea_.doors_) {
        const bool here = host == "127.0.0.1" && at.first == own_host;
        if (at.second != port || (!here && address_of(at.first) != host)) continue;
        there = at.first;
        called = listener;
      }
      if (there >= 0 && !sea_.is_cut(own_host, there) && sea_.can_call(own_host, there, port)) {
        const SimTime back = waters_.now() + sea_.latency(own_host, there) * 2;
        while (waters_.now() < back && !aborted_) pause(back);
        const auto listener = sea_.doors_.find({there, port});
        if (!aborted_ && !p.up && (listener == sea_.doors_.end() || listener->second != called)) {
          return fail({ErrorCode::kLostPeer,
                       fmt::format("no link to rank {} at {}:{}: it hung up during the handshake",
                                   rank, host, port)});
        }
        if (!aborted_ && !p.up && !sea_.is_cut(own_host, there)) {
          link::FrameDecoder decoder(link::kUnauthenticatedPayloadMax);
          Status said;
          CHECK(decoder.feed(
                    link::hello_frame(self, rank, {.attempt = attempt}, {.grace = options_.grace}),
                    [&](const link::Frame& hello) -> Status {
                      said = listener->second->greet(hello, *this);
                      return {};
                    }),
                "a hello that cannot be read");
          if (said) return {};
          return fail({.code = said.error().code,
                       .message = fmt::format("no link to rank {} at {}:{}: {}", rank, host, port,
                                              said.error().message),
                       .cause = said.error().cause});
        }
      }
      if (waters_.now() >= deadline) break;
      pause(std::min(deadline, waters_.now() + SimDuration{100'000'000}));
    }
    if (aborted_) return fail(*aborted_);
    return fail({ErrorCode::kLostPeer,
                 fmt::format("rank {} did not answer at {}:{} in time", rank, host, port)});
  }

  // The socket is gone. A link with a grace waits for it, in vain.
  void leave(bool silently) {
    if (gone_) return;
    gone_ = true;
    sea_.doors_.erase({waters_.process().host, port_});
    for (auto& [number, listener] : sea_.splices_) {
      for (const auto& [id, call] : sea_.splice_calls_) {
        if (call.first == this && !silently)
          listener->hang_up(id);  // a silent one it knows nothing of
      }
    }
    std::erase_if(sea_.splice_calls_, [&](const auto& call) { return call.second.first == this; });
    std::erase(waters_.process().belongings, this);
    for (auto& [rank, p] : peers_) {
      if (!p.wire) continue;
      const WirePtr wire = p.wire;
      wire->ends[p.end] = nullptr;
      std::erase(sea_.wires_, wire);
      if (parted_) continue;
      const Error lost{ErrorCode::kLostPeer,
                       fmt::format("lost rank {}: the connection ended without "
                                   "a goodbye",
                                   options_.identity.rank)};
      const auto tell = [wire, end = p.end, lost] {
        if (OceanEndpoint* other = wire->ends[1 - end]) other->hear_end(wire->ranks[end], lost);
      };
      const SimTime now = sea_.ocean().now();
      if (wire->grace.ns > 0) {
        sea_.ocean().at(now + (silently ? wire->silence_max + wire->grace : wire->ended_max), tell);
      } else if (silently) {  // the host answers again, and knows nothing of it
        sea_.ocean().at(now + SimDuration{90'000'000'000}, tell);
      } else {
        sea_.send(wire, p.end, tell);
      }
    }
  }

  friend class Sea;
  static constexpr SimDuration kClosingMax{30'000'000};
  Sea& sea_;
  Waters& waters_;
  Options options_;
  OceanSignal changed_;
  uint16_t port_ = 0;
  std::map<int32_t, Peer> peers_;
  Box own_;
  std::optional<link::Tag> welcomed_;
  std::optional<Error> aborted_;
  bool closing_ = false, parted_ = false, gone_ = false;
};

inline void Sea::lose(const WirePtr& wire, const std::string& why) {
  if (std::exchange(wire->over, true)) return;
  for (int end = 0; end < 2; ++end) {
    wire->streams[end].on_its_way.clear();
    if (!wire->ends[end]) continue;
    const int32_t other = wire->ranks[1 - end];
    wire->ends[end]->hear_end(other,
                              {ErrorCode::kLostPeer, fmt::format("lost rank {}: {}", other, why)});
  }
}

inline void Sea::reset(int from, int to, bool one) {
  for (const WirePtr& each : std::vector(wires_)) {
    if (!each->takes(from, to)) continue;
    reset(each);
    if (one) return;
  }
}

inline void Sea::reset(const WirePtr& wire) {
  if (wire->grace.ns == 0) {
    lose(wire, "Connection reset by peer");
  } else if (!can_call_again(*wire)) {
    ocean_.at(ocean_.now() + wire->ended_max,
              [this, wire] { lose(wire, "it cannot be called again"); });
  } else {
    wire->forgets[0] = wire->forgets[1] = bug_ == Bug::kMessageLostInReset;
    wire->reset_until =
        ocean_.now() + SimDuration{static_cast<int64_t>(random_.below(1'000'000'000))};
  }
}

class OceanSockets : public transport::Sockets {
 public:
  OceanSockets(Sea& sea, Waters& waters) : sea_(sea), waters_(waters) {}
  Result<std::unique_ptr<Endpoint>> open(Endpoint::Options options, Clock&) override {
    TRY(options.check());
    auto endpoint = std::make_unique<OceanEndpoint>(sea_, waters_, std::move(options));
    TRY(endpoint->listen());
    return endpoint;
  }
  bool takes_connections(const transport::Address& at, SimDuration patience) override {
    const int host = waters_.process().host;
    const SimTime until = waters_.now() + patience;
    for (const auto& [place, listener] : sea_.doors_) {
      if (place.second != at.port || address_of(place.first) != at.host) continue;
      if (sea_.can_call(host, place.first, at.port)) return true;
      break;
    }
    waters_.sleep_until(until);
    return false;
  }

 private:
  Sea& sea_;
  Waters& waters_;
};

}  // namespace tombolo::ocean
