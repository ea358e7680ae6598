// For tests: ranks of an ocean with links that obey the law of the pacing shim (link/pacer.h), and
// send what is most urgent first, segment by segment. Nothing else takes time, so what happens is
// what the Plan says.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "perform/kernels/messenger.h"
#include "support/ocean.h"

namespace tombolo::ocean {

class OceanLinks {
 public:
  using ShapeOf = std::function<link::LinkShape(int32_t from, int32_t to)>;
  static constexpr size_t kSegment = 64 * 1024;
  struct Options {
    plan::ExchangeOrder order = plan::ExchangeOrder::kDeadline;
    size_t segment = kSegment;  // then something more urgent may pass
  };

  OceanLinks(Ocean& ocean, ShapeOf shape_of) : OceanLinks(ocean, std::move(shape_of), Options{}) {}
  OceanLinks(Ocean& ocean, ShapeOf shape_of, Options options)
      : ocean_(ocean), shape_of_(std::move(shape_of)), options_(options) {}

  // From now on who waits for this rank hears that it is lost.
  void lose(int32_t rank) {
    lost_[rank] = true;
    for (auto& [of, changed] : changed_) changed->notify_all();
  }
  std::map<std::pair<int32_t, int32_t>, int64_t> bytes() const { return bytes_; }

 private:
  friend class OceanMessenger;
  struct Waiting {
    link::Tag tag;
    link::Payload payload;
    size_t sent = 0;
    SimTime start;
  };
  struct Link {
    std::map<std::pair<link::Urgency, uint64_t>, Waiting> queue;
    bool busy = false;
  };
  using Box = std::map<std::pair<int32_t, link::Tag>, std::deque<link::Received>>;

  OceanSignal& changed(int32_t rank) {
    auto& signal = changed_[rank];
    if (!signal) signal = std::make_unique<OceanSignal>(ocean_);
    return *signal;
  }
  void send(int32_t from, int32_t to, link::Tag tag, link::Payload payload) {
    if (from == to) return deliver(from, to, tag, {std::move(payload), ocean_.now(), ocean_.now()});
    bytes_[{from, to}] += static_cast<int64_t>(payload.size());
    Link& link = links_[{from, to}];
    link.queue[{kernels::urgency_of(tag, options_.order), ++messages_}] = {
        tag, std::move(payload), 0, {}};
    if (!std::exchange(link.busy, true)) go_on(from, to);
  }
  void go_on(int32_t from, int32_t to) {
    Link& link = links_[{from, to}];
    link.busy = !link.queue.empty();
    if (!link.busy) return;
    auto& [place, next] = *link.queue.begin();
    if (next.sent == 0) next.start = ocean_.now();
    const size_t segment = std::min(options_.segment, next.payload.size() - next.sent);
    const link::LinkShape shape = shape_of_(from, to);
    const SimDuration takes =
        shape.rate ? round_to_ns(Bytes{static_cast<double>(segment)} / *shape.rate) : SimDuration{};
    ocean_.at(ocean_.now() + takes, [this, from, to, segment, key = place, delay = shape.delay] {
      sent(from, to, key, segment, delay);
    });
  }
  void sent(int32_t from, int32_t to, std::pair<link::Urgency, uint64_t> key, size_t segment,
            SimDuration delay) {
    auto& queue = links_[{from, to}].queue;
    Waiting& message = queue.at(key);
    message.sent += segment;
    if (message.sent == message.payload.size()) {
      auto node = queue.extract(key);
      const SimTime there = ocean_.now() + delay;
      auto whole = std::make_shared<link::Received>(
          link::Received{std::move(node.mapped().payload), node.mapped().start, there,
                         std::min(node.mapped().start + delay, there)});
      ocean_.at(there, [this, from, to, tag = node.mapped().tag, whole] {
        deliver(from, to, tag, std::move(*whole));
      });
    }
    go_on(from, to);
  }
  void deliver(int32_t from, int32_t to, link::Tag tag, link::Received message) {
    boxes_[to][{from, tag}].push_back(std::move(message));
    changed(to).notify_all();
  }

  Ocean& ocean_;
  const ShapeOf shape_of_;
  const Options options_;
  std::map<std::pair<int32_t, int32_t>, Link> links_;
  std::map<int32_t, Box> boxes_;
  std::map<int32_t, std::unique_ptr<OceanSignal>> changed_;
  std::map<int32_t, bool> lost_;
  std::map<std::pair<int32_t, int32_t>, int64_t> bytes_;
  uint64_t messages_ = 0;
};

class OceanMessenger : public kernels::Messenger {
 public:
  OceanMessenger(OceanLinks& links, int32_t rank) : links_(links), rank_(rank) {}

  Status send(int32_t peer, link::Tag tag, link::Payload payload) override {
    links_.send(rank_, peer, tag, std::move(payload));
    return {};
  }
  Result<Came> receive_any(std::span<const Awaited> wanted) override {
    while (true) {
      std::optional<int32_t> lost;
      for (size_t i = 0; i < wanted.size(); ++i) {
        auto& queue = links_.boxes_[rank_][{wanted[i].peer, wanted[i].tag}];
        if (queue.empty()) {
          if (links_.lost_[wanted[i].peer]) lost = wanted[i].peer;
          continue;
        }
        Came came{i, std::move(queue.front())};
        queue.pop_front();
        return came;
      }
      if (lost) return fail({ErrorCode::kLostPeer, fmt::format("lost rank {}", *lost)});
      std::mutex mutex;
      std::unique_lock lock(mutex);
      links_.changed(rank_).wait(lock, kNever);
    }
  }

 private:
  OceanLinks& links_;
  const int32_t rank_;
};

}  // namespace tombolo::ocean
