// For tests: messengers of ranks in one process. A message is there as soon as it is sent.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "perform/kernels/messenger.h"

namespace tombolo::train {

class MemoryHub {
 public:
  void put(int32_t from, int32_t to, link::Tag tag, link::Payload payload) {
    const std::lock_guard lock(mutex_);
    messages_[{from, to, tag}].push_back(std::move(payload));
    changed_.notify_all();
  }

  using Awaited = kernels::Messenger::Awaited;
  using Came = kernels::Messenger::Came;
  Result<Came> take_any(int32_t to, std::span<const Awaited> wanted) {
    std::unique_lock lock(mutex_);
    while (true) {
      std::optional<int32_t> lost;
      for (size_t i = 0; i < wanted.size(); ++i) {
        auto& waiting = messages_[{wanted[i].peer, to, wanted[i].tag}];
        if (waiting.empty()) {
          if (lost_.count(wanted[i].peer) > 0) lost = wanted[i].peer;
          continue;
        }
        Came came{i, {.payload = std::move(waiting.front())}};
        waiting.pop_front();
        return came;
      }
      if (lost) return fail({ErrorCode::kLostPeer, fmt::format("rank {} went away", *lost)});
      changed_.wait(lock);
    }
  }

  // Whoever waits for it, now or later, hears that it is gone.
  void lose(int32_t rank) {
    const std::lock_guard lock(mutex_);
    lost_.insert(rank);
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::tuple<int32_t, int32_t, link::Tag>, std::deque<link::Payload>> messages_;
  std::set<int32_t> lost_;
};

class MemoryMessenger : public kernels::Messenger {
 public:
  MemoryMessenger(MemoryHub& hub, int32_t rank) : hub_(hub), rank_(rank) {}
  Status send(int32_t peer, link::Tag tag, link::Payload payload) override {
    hub_.put(rank_, peer, tag, std::move(payload));
    return {};
  }
  Result<Came> receive_any(std::span<const Awaited> wanted) override {
    return hub_.take_any(rank_, wanted);
  }

 private:
  MemoryHub& hub_;
  const int32_t rank_;
};

}  // namespace tombolo::train
