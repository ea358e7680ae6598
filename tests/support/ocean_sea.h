// The ocean's network without its endpoints: hosts and the paths between them, which are cut, slow or
// reset, firewalls and routers that let calls out and not in, and what is on its way.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "perform/link/frame.h"
#include "perform/transport/endpoint.h"
#include "support/ocean.h"

namespace tombolo::ocean {

using transport::Endpoint;

class OceanEndpoint;
class OceanSpliceListener;

// What is broken on purpose, for the ocean to find.
enum class Bug {
  kNone,
  kMessageLostInReset,    // a link that comes back forgets a message
  kLinksHaveNoGrace,      // a connection that is lost is a link that is lost
  kExitIsNotHeard,        // the launcher does not hear that a process ended
  kTokenIsDrawnAgain,     // by a launcher that goes on with a run
  kNobodyComesAgain,      // who starts ranks of other hosts does not start them again
  kStateIsOneShort,       // what is saved lacks the last update
  kUpdateAgainAfterLoad,  // the first update after a resume is made twice
  kDiskForgets,           // what was synced is not there after a power cut
  kJournalForgets,        // the last entry is not there after a kill
  kKeptUnderAnotherStep,  // a state that was left is one step older than it says
  kFullDiskIsBelieved,    // what did not fit is said to be written
  kClocksCanBeSet,        // time is what the wall clock says
  kSlowIsLost,            // a link that is slow for seconds is lost
  kSeatIsNotFenced,       // a process that calls as a rank which is there takes its place
  kSpareLeavesItsSeat,    // a spare that sat once does not come again
  kSplicedWithAnother,    // the coordinator joins whoever calls
  kSpliceIsNotToldAgain,  // a launcher that goes on with a run does not say who meets there
  kDamageIsBelieved,      // a bit that changed on the way is as if it had been sent
  kDigestsAreNotChecked,  // nor is a bit that changed in a checkpoint noticed
};

inline std::string address_of(int host) { return fmt::format("10.0.0.{}", host + 1); }

// One direction of a link: what is on its way.
struct Stream {
  std::deque<std::pair<SimTime, std::function<void()>>> on_its_way;
  bool moving = false;
};

struct Wire {
  OceanEndpoint* ends[2] = {};
  int32_t ranks[2] = {};
  int hosts[2] = {};
  int via = -1;             // the host of a splice
  uint64_t listener = 0;    // and which one
  SimDuration grace;        // 0: it does not outlive its connections
  SimDuration ended_max;    // the same where a process ended
  SimDuration silence_max;  // then a connection that carries nothing is lost
  Stream streams[2];        // by the end that sends
  SimTime reset_until;
  bool forgets[2] = {};  // what this end sends next
  bool damages[2] = {};  // a bit of it changes on the way
  bool over = false;

  // Of its way: from where to where. The end that dialed stands first.
  std::vector<std::pair<int, int>> paths() const {
    if (via < 0) return {{hosts[0], hosts[1]}};
    return {{hosts[0], via}, {via, hosts[1]}};
  }
  bool takes(int from, int to) const {
    for (const auto& [a, b] : paths()) {
      if (std::minmax(a, b) == std::minmax(from, to)) return true;
    }
    return false;
  }
};
using WirePtr = std::shared_ptr<Wire>;

class Sea {
 public:
  explicit Sea(Ocean& ocean) : ocean_(ocean), random_(ocean.random().stream("sea")) {}

  Ocean& ocean() { return ocean_; }
  Random& random() { return random_; }
  SimDuration latency(int from, int to) {
    if (from == to) return {20'000 + static_cast<int64_t>(random_.below(50'000))};
    auto [at, is_new] = latencies_.try_emplace(std::minmax(from, to));
    if (is_new) at->second = {2'000'000 + static_cast<int64_t>(random_.below(60'000'000))};
    return at->second + SimDuration{static_cast<int64_t>(random_.below(2'000'000))} +
           queueing(from, to);
  }

  // Until then every message waits on its way, up to so long.
  void slow(int from, int to, SimTime until, SimDuration most) {
    CHECK(most.ns > 0, "a path that is slow by {} ns", most.ns);
    slow_[std::minmax(from, to)] = {until, most};
  }
  SimDuration queueing(int from, int to) {
    const auto at = slow_.find(std::minmax(from, to));
    if (at == slow_.end() || at->second.first <= ocean_.now()) return {};
    return {static_cast<int64_t>(random_.below(static_cast<uint64_t>(at->second.second.ns)))};
  }

  bool is_cut(int from, int to) const {
    const auto at = cut_until_.find(std::minmax(from, to));
    return at != cut_until_.end() && at->second > ocean_.now();
  }
  void cut(int from, int to, SimTime until) {
    SimTime& at = cut_until_[std::minmax(from, to)];
    const SimTime since = ocean_.now();
    at = std::max(at, until);
    for (const WirePtr& each : std::vector(wires_)) {
      if (each->grace.ns == 0 || !each->takes(from, to)) continue;
      const SimTime over = since + each->silence_max + each->grace;
      const bool is_called_again = until < over && can_call_again(*each);
      if (until >= over || (!is_called_again && until > since + each->silence_max))
        ocean_.at(over, [this, each] { lose(each, "it had no connection for too long"); });
    }
  }
  bool is_cut(const Wire& wire) const {
    if (wire.via >= 0 && ocean_.is_suspended(wire.via)) return true;
    for (const auto& [from, to] : wire.paths()) {
      if (is_cut(from, to)) return true;
    }
    return false;
  }

  // From now on no call of that host to the ranks of this one arrives; what is linked stays so.
  void block(int from, int to) { blocked_.insert({from, to}); }
  // Its ranks can be called by those behind the same router alone.
  void put_behind(int host, int router) { routers_[host] = router; }
  bool can_call(int from, int to, uint16_t port) const {
    if (from == to || port < kFirstRankPort) return true;
    const auto its = routers_.find(to), ours = routers_.find(from);
    if (its != routers_.end() && (ours == routers_.end() || ours->second != its->second))
      return false;
    return !blocked_.contains({from, to});
  }
  bool can_call_again(const Wire& wire) const {
    if (wire.via >= 0) return splices_.contains(wire.listener);
    return can_call(wire.hosts[0], wire.hosts[1], kFirstRankPort);
  }

  // The listener is gone, and calling it again is in vain.
  void lose_spliced(uint64_t listener) {
    for (const WirePtr& each : wires_) {
      if (each->listener != listener) continue;
      ocean_.at(ocean_.now() + each->ended_max,
                [this, each] { lose(each, "the coordinator hung up, and answers no more"); });
    }
  }

  // Every link between them, or one.
  void reset(int from, int to, bool one);
  void reset(const WirePtr& wire);
  // A bit of what each link between them carries next changes, in both directions.
  void damage(int from, int to) {
    for (const WirePtr& each : wires_) {
      if (each->takes(from, to)) each->damages[0] = each->damages[1] = true;
    }
  }
  // What arrives of it: the decoder refuses the frame, the connection is lost, and the link carries the
  // message again.
  link::Payload carry_damaged(const WirePtr& wire, const link::Tag& tag, link::Payload payload) {
    ++damages_;
    if (bug_ == Bug::kDamageIsBelieved) {
      if (!payload.empty())
        payload[random_.below(std::min<size_t>(8, payload.size()))] ^= std::byte{1};
      return payload;
    }
    const auto part =
        std::span(payload).first(std::min<size_t>(payload.size(), link::kFramePayloadMax));
    std::vector<std::byte> frame =
        link::encode_frame({.iteration = tag.iteration,
                            .total = payload.size(),
                            .length = static_cast<uint32_t>(part.size())},
                           part);
    frame[random_.below(frame.size())] ^= std::byte(1U << random_.below(8));
    link::FrameDecoder decoder;
    bool is_accepted = false;
    static_cast<void>(decoder.feed(frame, [&](const link::Frame&) -> Status {
      is_accepted = true;
      return {};
    }));
    CHECK(!is_accepted, "a frame with a changed bit is accepted");
    reset(wire);
    return payload;
  }
  int damages() const { return damages_; }
  void lose(const WirePtr& wire, const std::string& why);

  // After the latency, behind what was sent before, and not before the path is whole.
  void send(const WirePtr& wire, int end, std::function<void()> arrives) {
    if (std::exchange(wire->forgets[end], false)) return;
    Stream& stream = wire->streams[end];
    SimDuration way{};
    for (const auto& [from, to] : wire->paths()) way += latency(from, to);
    if (bug_ == Bug::kSlowIsLost && way.ns > 3'000'000'000)
      return lose(wire, "it did not answer for 3 s");
    SimTime at = ocean_.now() + way;
    if (!stream.on_its_way.empty()) at = std::max(at, stream.on_its_way.back().first);
    stream.on_its_way.emplace_back(at, std::move(arrives));
    if (!std::exchange(stream.moving, true)) move_at(wire, end, at);
  }

  std::map<std::pair<int, uint16_t>, OceanEndpoint*> doors_;  // by host and port
  std::vector<WirePtr> wires_;
  std::map<uint64_t, OceanSpliceListener*> splices_;                      // by their number
  std::map<uint64_t, std::pair<OceanEndpoint*, int32_t>> splice_calls_;   // who waits for whom
  std::function<bool(const link::Tag&, const link::Payload&)> swallows_;  // a bug that is planted
  // Until when a message from one rank to another is held up. It says the same of those behind it, or they overtake it;
  // both ranks are there until then.
  std::function<std::optional<SimTime>(int32_t from, int32_t to, const link::Tag&,
                                       const link::Payload&)>
      holds_up_;
  static constexpr uint16_t kFirstRankPort = 40'000;  // lower ones are forwarded to the launcher
  uint16_t next_port_ = kFirstRankPort;
  uint64_t attempts_ = 0;
  int damages_ = 0;
  Bug bug_ = Bug::kNone;
  int64_t memory_ = int64_t{1} << 40;  // that each host can still give
  // How long this rank's next computation of that iteration hangs.
  std::function<SimDuration(int32_t rank, int64_t iteration)> hangs_;
  std::function<void(const std::string&)> log_;  // for a person who watches one storm

 private:
  void move_at(const WirePtr& wire, int end, SimTime at) {
    ocean_.at(at, [this, wire, end] { move(wire, end); });
  }
  void move(const WirePtr& wire, int end) {
    Stream& stream = wire->streams[end];
    if (stream.on_its_way.empty()) {
      stream.moving = false;
      return;
    }
    if (is_cut(*wire) || ocean_.now() < wire->reset_until) {
      const auto again =
          SimDuration{50'000'000 + static_cast<int64_t>(random_.below(1'500'000'000))};
      return move_at(wire, end, ocean_.now() + again);
    }
    if (stream.on_its_way.front().first > ocean_.now())
      return move_at(wire, end, stream.on_its_way.front().first);
    const auto arrives = std::move(stream.on_its_way.front().second);
    stream.on_its_way.pop_front();
    arrives();
    move_at(wire, end, ocean_.now());
  }

  Ocean& ocean_;
  Random random_;
  std::map<std::pair<int, int>, SimDuration> latencies_;
  std::map<std::pair<int, int>, SimTime> cut_until_;
  std::map<std::pair<int, int>, std::pair<SimTime, SimDuration>> slow_;  // until when, by how much
  std::set<std::pair<int, int>> blocked_;                                // from, to
  std::map<int, int> routers_;                                           // by host
};

}  // namespace tombolo::ocean
