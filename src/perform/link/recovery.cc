#include "perform/link/recovery.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::link {
namespace {

constexpr int64_t kFirstPause = 50'000'000;  // ns
constexpr int64_t kLongestPause = 2'000'000'000;

}  // namespace

Recovery::Recovery(Graces graces, uint32_t connections, uint64_t seed)
    : graces_(graces), here_(connections), random_(Random(seed).stream("recovery")) {
  CHECK(graces.ended.ns > 0 && graces.ended <= graces.silent && connections > 0,
        "{} connections, a grace of {} ns, of {} ns where they ended", connections,
        graces.silent.ns, graces.ended.ns);
}

SimDuration Recovery::pause(uint32_t calls) {
  if (calls == 0) return {};
  const int64_t whole = std::min(kLongestPause, kFirstPause << std::min(calls - 1, 10u));
  return {static_cast<int64_t>(static_cast<double>(whole) * (0.75 + random_.uniform() / 2))};
}

void Recovery::lost(uint32_t connection, Loss loss, const std::string& why, SimTime now) {
  if (is_lost(connection)) return;
  CHECK(here_ > 0, "connection {} is lost, and none was here", connection);
  ++losses_;
  Lost& lost = lost_[connection];
  lost.loss = loss;
  lost.since = now;
  lost.why = why;
  const auto before = came_back_.find(connection);
  if (before != came_back_.end() && now - before->second.at < SimDuration{kLongestPause}) {
    lost.calls = before->second.calls + 1;
    // A call of long ago may have been answered late, by a process that slept.
    if (before->second.loss == Loss::kSilent) lost.loss = Loss::kSilent;
  }
  lost.call_at = now + pause(lost.calls);
  if (--here_ > 0) return;
  alone_since_ = now;
  alone_by_ = lost.loss;
  why_ = why;
  why_call_.clear();
}

void Recovery::failed_call(uint32_t connection, const std::string& why, SimTime now) {
  const auto at = lost_.find(connection);
  if (at == lost_.end()) return;
  // The pause counts from when the call began: one that timed out has waited long enough.
  at->second.call_at = std::max(now, at->second.call_at + pause(++at->second.calls));
  why_call_ = why;
}

std::string Recovery::back(uint32_t connection, SimTime now) {
  const auto at = lost_.find(connection);
  if (at == lost_.end()) return {};
  std::string story =
      fmt::format("lost for {}: {}", brief(seconds(now - at->second.since)), at->second.why);
  came_back_[connection] = {now, at->second.loss, at->second.calls};
  lost_.erase(at);
  ++here_;
  alone_since_.reset();
  return story;
}

std::optional<SimTime> Recovery::over_at() const {
  if (!alone_since_) return std::nullopt;
  return *alone_since_ + (alone_by_ == Loss::kSilent ? graces_.silent : graces_.ended);
}

std::string Recovery::reason(SimTime now) const {
  const SimDuration alone = alone_since_ ? now - *alone_since_ : SimDuration{};
  std::string text = fmt::format("it had no connection for {}: {}", brief(seconds(alone)), why_);
  if (!why_call_.empty()) text += fmt::format("; the last call for it failed: {}", why_call_);
  return text;
}

}  // namespace tombolo::link
