#include "perform/handover/cache_sender.h"

#include <utility>

#include "base/check.h"
#include "base/parallel.h"

namespace tombolo::handover {

CacheSender::CacheSender(generate::DecodePlace place, int32_t reader)
    : place_(std::move(place)), rank_(kPrefillRank + reader) {
  CHECK(reader >= 0 && reader < kReadersMax, "reader {}", reader);
  thread_ = start_without_signals([this] { run(); });
}

CacheSender::~CacheSender() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    if (endpoint_)
      endpoint_->abort({ErrorCode::kFailed, "who reads the prompts has ended", {}, ""});
  }
  thread_.join();
}

void CacheSender::give(generate::HandedOver prompt) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(prompt));
  changed_.notify_all();
}

CacheSender::News CacheSender::news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

Status CacheSender::call() {
  auto endpoint = TRY(open_endpoint(place_, rank_, clock_));
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return failed("stopped");
    endpoint_ = std::move(endpoint);
  }
  TRY(call_decode_worker(*endpoint_, place_, rank_, clock_));
  const std::lock_guard lock(mutex_);
  news_.linked = true;
  return {};
}

Status CacheSender::send_one(const generate::HandedOver& prompt) {
  return say_kv_rows(prompt, [&](generate::KvMessage message) {
    return endpoint_->send(kDecodeRank, kDecodeTag, std::move(message));
  });
}

void CacheSender::run() {
  Status status = call();
  while (status) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    generate::HandedOver prompt = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    status = send_one(prompt);
    lock.lock();
    if (status) news_.left.push_back(prompt.number);
  }
  const std::lock_guard lock(mutex_);
  news_.failed = status.error().message;
}

}  // namespace tombolo::handover
