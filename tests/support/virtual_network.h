// For tests: ranks in threads of one process, each with a clock of its own that nobody else moves,
// and between them links that obey the law of the pacing shim (link/pacer.h) to the nanosecond.
// What a rank sees depends on the bytes and the law alone, never on the machine.
#pragma once

#include <cmath>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "perform/kernels/messenger.h"

namespace tombolo::kernels {

class VirtualNetwork {
 public:
  using ShapeOf = std::function<link::LinkShape(int32_t from, int32_t to)>;
  explicit VirtualNetwork(ShapeOf shape_of) : shape_of_(std::move(shape_of)) {}

  // All receives fail from now on, as if the other ranks were gone.
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  int64_t messages() const { return messages_; }

 private:
  friend class VirtualMessenger;
  struct Link {
    SimTime free;
    std::map<link::Tag, std::deque<link::Received>> waiting;
  };
  const ShapeOf shape_of_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int32_t, int32_t>, Link> links_;
  int64_t messages_ = 0;
  bool closed_ = false;
};

class VirtualMessenger : public Messenger {
 public:
  VirtualMessenger(VirtualNetwork& network, int32_t rank, ManualClock& clock)
      : network_(network), rank_(rank), clock_(clock) {}

  Status send(int32_t peer, link::Tag tag, Payload payload) override {
    const link::LinkShape shape = network_.shape_of_(rank_, peer);
    std::lock_guard lock(network_.mutex_);
    auto& link = network_.links_[{rank_, peer}];
    const SimTime start = std::max(clock_.now(), link.free);
    link.free = start;
    if (shape.rate) {
      link.free = start + round_to_ns(Bytes{static_cast<double>(payload.size())} / *shape.rate);
    }
    link.waiting[tag].push_back({std::move(payload), start, link.free + shape.delay});
    ++network_.messages_;
    network_.changed_.notify_all();
    return {};
  }

  // Of one: which of several is there first would depend on the machine.
  Result<Came> receive_any(std::span<const Awaited> wanted) override {
    CHECK(wanted.size() == 1, "{} messages are awaited at once", wanted.size());
    const auto& [peer, tag] = wanted.front();
    std::unique_lock lock(network_.mutex_);
    auto& queue = network_.links_[{peer, rank_}].waiting[tag];
    network_.changed_.wait(lock, [&] { return !queue.empty() || network_.closed_; });
    if (queue.empty()) return fail({ErrorCode::kLostPeer, fmt::format("lost rank {}", peer)});
    link::Received message = std::move(queue.front());
    queue.pop_front();
    clock_.sleep_until(message.delivered);
    return Came{0, std::move(message)};
  }

 private:
  VirtualNetwork& network_;
  const int32_t rank_;
  ManualClock& clock_;
};

}  // namespace tombolo::kernels
