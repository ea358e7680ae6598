#include "perform/train/shard_team.h"

#include <utility>

#include "base/check.h"

namespace tombolo::train {
namespace {

constexpr int kLooks = 2000;  // some microseconds

// Returns when `value` is no longer `old`.
template <class Number>
void await_change(const std::atomic<Number>& value, Number old) {
  for (int look = 0; look < kLooks; ++look) {
    if (value.load(std::memory_order_acquire) != old) return;
  }
  value.wait(old, std::memory_order_acquire);
}

bool is_abandoned(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ShardTeam::Abandoned&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

ShardTeam::ShardTeam(int32_t shards) : shards_(shards), thrown_(static_cast<size_t>(shards)) {
  CHECK(shards >= 1, "a team of {} shards", shards);
  for (int32_t shard = 1; shard < shards; ++shard)
    threads_.emplace_back([this, shard] { serve(shard); });
}

ShardTeam::~ShardTeam() {
  ending_ = true;
  ++calls_;
  calls_.notify_all();
  for (std::thread& each : threads_) each.join();
}

void ShardTeam::serve(int32_t shard) {
  for (uint64_t served = 0;; ++served) {
    await_change(calls_, served);
    if (ending_) return;
    work(shard);
    if (--running_ == 0) running_.notify_all();
  }
}

void ShardTeam::work(int32_t shard) noexcept {
  try {
    (*work_)(shard);
  } catch (...) {
    thrown_[static_cast<size_t>(shard)] = std::current_exception();
    abandon();
  }
}

void ShardTeam::run(const Work& work_in) {
  work_ = &work_in;
  abandoned_ = false;
  arrived_ = 0;
  running_ = shards_ - 1;
  if (shards_ > 1) {
    ++calls_;
    calls_.notify_all();
  }
  work(0);
  for (int32_t still = running_; still > 0; still = running_) await_change(running_, still);
  work_ = nullptr;
  std::exception_ptr first;
  for (std::exception_ptr& each : thrown_) {
    std::exception_ptr thrown = std::exchange(each, nullptr);
    if (thrown && !is_abandoned(thrown) && !first) first = thrown;
  }
  if (first) std::rethrow_exception(first);
}

void ShardTeam::abandon() {
  abandoned_ = true;
  ++meetings_;
  meetings_.notify_all();
}

void ShardTeam::meet() {
  const uint64_t before = meetings_;
  if (abandoned_) throw Abandoned{};
  if (++arrived_ == shards_) {
    arrived_ = 0;
    ++meetings_;
    meetings_.notify_all();
  } else {
    await_change(meetings_, before);
  }
  if (abandoned_) throw Abandoned{};
}

}  // namespace tombolo::train
