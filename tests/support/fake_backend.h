// A backend without a model: says the tokens that it was told to, when it is told to.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ui/serve/backend.h"

namespace tombolo::serve {

class FakeBackend final : public Backend {
 public:
  std::vector<int64_t> says;                 // each answer
  std::optional<generate::Refused> refuses;  // every prompt
  bool waits = false;                        // for go_on(), before each answer's second token
  bool fails = false;                        // after the first token
  int64_t lost_after = -1;                   // so many tokens who computes has gone; -1: never

  tl::expected<std::unique_ptr<Answer>, generate::Refused> admit(
      generate::Request request) override {
    const std::lock_guard lock(mutex_);
    if (refuses) return tl::unexpected(*refuses);
    requests_.push_back(request);
    ++open_;
    return std::make_unique<FakeAnswer>(*this, request.tokens_max);
  }
  bool alive() const override { return !dead_; }
  std::string end() const override { return dead_ ? "the fake has gone" : ""; }

  void die() { dead_ = true; }
  void go_on() {
    const std::lock_guard lock(mutex_);
    waits = false;
    news_.notify_all();
  }
  std::vector<generate::Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  // Waits until nobody reads an answer.
  void await_none_open() {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [&] { return open_ == 0; });
  }

 private:
  class FakeAnswer final : public Answer {
   public:
    FakeAnswer(FakeBackend& backend, int64_t most) : backend_(backend), most_(most) {}
    ~FakeAnswer() override {
      const std::lock_guard lock(backend_.mutex_);
      --backend_.open_;
      backend_.news_.notify_all();
    }
    Step next(SimDuration patience) override {
      std::unique_lock lock(backend_.mutex_);
      const auto goes_on = [&] { return !backend_.waits || said_ == 0; };
      if (!backend_.news_.wait_for(lock, std::chrono::nanoseconds(patience.ns), goes_on)) return {};
      if (backend_.fails && said_ == 1) return {.kind = StepKind::kFailed, .message = "It broke."};
      if (said_ == backend_.lost_after) return {.kind = StepKind::kLost, .message = "It has gone."};
      if (said_ == most_) return {.kind = StepKind::kLength};
      if (said_ == std::ssize(backend_.says)) return {.kind = StepKind::kStop};
      return {.kind = StepKind::kToken, .token = backend_.says[static_cast<size_t>(said_++)]};
    }

   private:
    FakeBackend& backend_;
    int64_t most_, said_ = 0;
  };

  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::vector<generate::Request> requests_;
  int open_ = 0;
  std::atomic<bool> dead_{false};
};

}  // namespace tombolo::serve
