#include "perform/train/timed_strands.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace tombolo::train {
namespace {

constexpr int kStrandLooks = 1000;  // a microsecond or some, before others get a turn

}  // namespace

void CommonStart::meet() {
  const uint64_t before = meetings_;
  if (++arrived_ == threads_) {
    arrived_ = 0;
    ++meetings_;
  }
  for (int look = 0; meetings_ == before && !abandoned_; ++look) {
    if (look >= kStrandLooks) std::this_thread::yield();
  }
  if (abandoned_) throw ShardTeam::Abandoned{};
}

void CommonStart::abandon() { abandoned_ = true; }

TimedStrands::TimedStrands(int32_t shards, std::function<void()> on_failure)
    : shards_(shards),
      on_failure_(std::move(on_failure)),
      team_(2 * shards),
      alone_(shards),
      beside_(2 * shards),
      intervals_(static_cast<size_t>(2 * shards)) {}

void TimedStrands::perform(std::span<const TimedStep> steps, int32_t thread) {
  const int32_t shard = thread % shards_;
  const bool second = thread >= shards_;
  std::vector<Interval>& intervals = intervals_[static_cast<size_t>(thread)];
  for (size_t i = 0; i < steps.size(); ++i) {
    const TimedStep& step = steps[i];
    if (second && !step.second) continue;
    if (step.second) {
      team_.meet();  // wakes the second ones
      beside_.meet();
    } else {
      alone_.meet();
    }
    intervals[i].begin = std::chrono::steady_clock::now();
    (second ? step.second : step.first)(shard);
    intervals[i].end = std::chrono::steady_clock::now();
    if (step.second) team_.meet();  // what follows may read what either has made
  }
}

std::vector<StepTime> TimedStrands::run(std::span<const TimedStep> steps) {
  for (std::vector<Interval>& each : intervals_) each.assign(steps.size(), {});
  team_.run([&](int32_t thread) {
    try {
      perform(steps, thread);
    } catch (...) {
      alone_.abandon();
      beside_.abandon();
      if (on_failure_) on_failure_();
      throw;
    }
  });
  std::vector<StepTime> times(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    // The last thread to arrive began at once; others may have waited for a core, which counts.
    const size_t threads = steps[i].second ? intervals_.size() : intervals_.size() / 2;
    auto begin = intervals_.front()[i].begin;
    for (size_t thread = 0; thread < threads; ++thread)
      begin = std::min(begin, intervals_[thread][i].begin);
    for (size_t thread = 0; thread < threads; ++thread) {
      auto& time = thread < intervals_.size() / 2 ? times[i].first : times[i].second;
      time = std::max(time, intervals_[thread][i].end - begin);
    }
  }
  return times;
}

}  // namespace tombolo::train
