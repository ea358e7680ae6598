#include "predict/astra/message_laws.h"

#include <vector>

#include "base/check.h"
#include "predict/astra/fluid_links.h"
#include "predict/network/link_queues.h"

namespace tombolo::astra {
namespace {

using network::Routes;
using About = MessageRun::About;

// Of what a law keeps of messages that are under way.
template <typename T>
T& at(std::vector<T>& of_messages, uint32_t id) {
  if (id >= of_messages.size()) of_messages.resize(id + 1 + id / 2);
  return of_messages[id];
}

// A message takes as long as its hops and its bytes say, whatever else is under way.
class AnalyticalLaw final : public MessageLaw {
 public:
  AnalyticalLaw(const network::Topology& topology, bool through_all, MessageRun& run)
      : MessageLaw(run), topology_(topology), through_all_(through_all) {}

  void send(const Message& message) override {
    const SimTime end =
        run_.now() + (through_all_
                          ? topology_.delay_through_all(message.from, message.to, message.bytes)
                          : topology_.delay(message.from, message.to, message.bytes));
    if (run_.watched()) tell(message, end);
    run_.wake(end, About::kMessage, message.id);
  }

 private:
  void tell(const Message& message, SimTime end) {
    for (size_t d = topology_.first_difference(message.from, message.to);
         d < topology_.dimensions(); ++d) {
      const int32_t here = topology_.coordinate(message.from, d);
      const int32_t there = topology_.coordinate(message.to, d);
      if (here == there) continue;
      const bool by_switch = topology_.dimension(d).block == network::Block::kSwitch;
      run_.passes(message.id, {{message.from, false},
                               d,
                               by_switch ? 1 : topology_.hops(d, here, there),
                               run_.now(),
                               end});
      if (!through_all_) break;
    }
  }

  const network::Topology& topology_;
  bool through_all_;
};

// A message crosses one link after another, each of which serves one at a time.
class CongestionLaw final : public MessageLaw {
 public:
  CongestionLaw(const network::Topology& topology, MessageRun& run)
      : MessageLaw(run), topology_(topology), routes_(topology), links_(routes_.links()) {}

  void send(const Message& message) override {
    at(under_way_, message.id) = {{message.from, false}, message.to, message.bytes};
    go_on(message.id);
  }

  void woken(About about, uint64_t which) override {
    if (about == About::kLink) {
      const int32_t next = links_.release(static_cast<int64_t>(which));
      if (next >= 0) take_link(static_cast<uint32_t>(next));
      return;
    }
    const auto id = static_cast<uint32_t>(which);
    UnderWay& message = under_way_[id];
    message.at = routes_.next_hop(message.at, message.to).end;
    if (message.at != Routes::Place{message.to, false}) return go_on(id);
    run_.arrived(id);
  }

 private:
  struct UnderWay {
    Routes::Place at;
    int32_t to = 0;
    int64_t bytes = 0;
  };

  void go_on(uint32_t id) {
    const UnderWay& message = under_way_[id];
    const Routes::Hop hop = routes_.next_hop(message.at, message.to);
    if (links_.offer(hop.link, static_cast<int32_t>(id))) take_link(id);
  }

  void take_link(uint32_t id) {
    const UnderWay& message = under_way_[id];
    const Routes::Hop hop = routes_.next_hop(message.at, message.to);
    const SimTime now = run_.now();
    const SimTime end = now + topology_.delay(hop.dimension, 1, message.bytes);
    if (run_.watched()) {
      run_.passes(id, {message.at, hop.dimension, message.at.at_switch ? 0 : 1, now, end});
    }
    run_.wake(end, About::kMessage, id);
    run_.wake(now + topology_.serialization(hop.dimension, message.bytes), About::kLink,
              static_cast<uint64_t>(hop.link));
  }

  const network::Topology& topology_;
  Routes routes_;
  network::LinkQueues links_;
  std::vector<UnderWay> under_way_;
};

// A message takes its whole route at once, at the rate that others leave it (fluid_links.h).
class FluidLaw final : public MessageLaw {
 public:
  FluidLaw(const network::Topology& topology, const RankClasses* classes, MessageRun& run)
      : MessageLaw(run), routes_(topology), links_(topology, classes) {}

  void send(const Message& message) override {
    at(under_way_, message.id) = {message.from, message.to, run_.now()};
    if (!links_.start(run_.now(), message.id, message.from, message.to, message.bytes,
                      message.cause)) {
      run_.stands_for_itself(message.id);
    }
  }

  void woken(About /*about*/, uint64_t which) override {
    const auto id = static_cast<uint32_t>(which);
    if (run_.watched()) tell(id);
    run_.arrived(id);
  }

  // Last bytes that leave by the next event become arrivals. Rates are asked for only when an
  // instant is over, so that all that starts and ends at it is solved at once.
  bool settles() const override { return true; }
  void settle() override {
    SimTime instant = run_.now();
    for (auto next = run_.next(); !next || *next > instant; next = run_.next()) {
      const std::optional<SimTime> leaves = links_.next();
      if (!leaves || (next && *next < *leaves)) return;
      for (const FluidLinks::Left& left : links_.finish(*leaves)) {
        run_.wake(left.arrives, About::kMessage, left.message);
      }
      instant = *leaves;
    }
  }

 private:
  struct UnderWay {
    int32_t from = 0, to = 0;
    SimTime left;
  };

  void tell(uint32_t id) {
    const UnderWay& message = under_way_[id];
    for (Routes::Place at{message.from, false}; at != Routes::Place{message.to, false};) {
      const Routes::Hop hop = routes_.next_hop(at, message.to);
      run_.passes(id, {at, hop.dimension, at.at_switch ? 0 : 1, message.left, run_.now()});
      at = hop.end;
    }
  }

  Routes routes_;
  FluidLinks links_;
  std::vector<UnderWay> under_way_;
};

}  // namespace

std::unique_ptr<MessageLaw> make_message_law(NetworkLaw law, const network::Topology& topology,
                                             bool through_all, const RankClasses* classes,
                                             MessageRun& run) {
  switch (law) {
    case NetworkLaw::kAnalytical:
      return std::make_unique<AnalyticalLaw>(topology, through_all, run);
    case NetworkLaw::kCongestion:
      return std::make_unique<CongestionLaw>(topology, run);
    case NetworkLaw::kFluid:
      return std::make_unique<FluidLaw>(topology, classes, run);
  }
  CHECK(false, "law {}", static_cast<int>(law));
}

}  // namespace tombolo::astra
