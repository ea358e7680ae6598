#include "perform/handover/cache_sender.h"

#include <utility>

#include "base/check.h"

namespace tombolo::handover {

CacheSender::CacheSender(generate::DecodePlace place, HostServices host, int32_t reader)
    : place_(std::move(place)),
      rank_(kPrefillRank + reader),
      host_(std::move(host)),
      changed_(host_.threads.signal()) {
  CHECK(reader >= 0 && reader < kReadersMax, "reader {}", reader);
  thread_ = host_.threads.start([this] { run(); });
}

CacheSender::~CacheSender() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_->notify_all();
    if (endpoint_)
      endpoint_->abort({ErrorCode::kFailed, "who reads the prompts has ended", {}, ""});
  }
  thread_.reset();
}

void CacheSender::give(generate::HandedOver prompt) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(prompt));
  changed_->notify_all();
}

CacheSender::News CacheSender::news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

Status CacheSender::call() {
  auto endpoint = TRY(open_endpoint(place_, rank_, host_));
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return failed("stopped");
    endpoint_ = std::move(endpoint);
  }
  TRY(call_decode_worker(*endpoint_, place_, rank_, host_.threads));
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
    host_.threads.await(*changed_, lock, kNever, [&] { return stopping_ || !waiting_.empty(); });
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
