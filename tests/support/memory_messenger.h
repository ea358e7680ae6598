// For tests: messengers of ranks in one process. A message is there as soon as it is sent.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "perform/runtime/messenger.h"

namespace tombolo::train {

class MemoryHub {
 public:
  void put(int32_t from, int32_t to, link::Tag tag, link::Payload payload) {
    const std::lock_guard lock(mutex_);
    messages_[{from, to, tag}].push_back(std::move(payload));
    changed_.notify_all();
  }

  Result<link::Received> take(int32_t from, int32_t to, link::Tag tag) {
    std::unique_lock lock(mutex_);
    auto& waiting = messages_[{from, to, tag}];
    changed_.wait(lock, [&] { return !waiting.empty() || lost_.count(from) > 0; });
    if (waiting.empty()) {
      return fail({ErrorCode::kLostPeer, fmt::format("rank {} went away", from)});
    }
    link::Received message{.payload = std::move(waiting.front())};
    waiting.pop_front();
    return message;
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

class MemoryMessenger : public runtime::Messenger {
 public:
  MemoryMessenger(MemoryHub& hub, int32_t rank) : hub_(hub), rank_(rank) {}
  Status send(int32_t peer, link::Tag tag, link::Payload payload) override {
    hub_.put(rank_, peer, tag, std::move(payload));
    return {};
  }
  Result<link::Received> receive(int32_t peer, link::Tag tag) override {
    return hub_.take(peer, rank_, tag);
  }

 private:
  MemoryHub& hub_;
  const int32_t rank_;
};

}  // namespace tombolo::train
