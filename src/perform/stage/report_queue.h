// Reports of iterations whose last update may end on another thread, after the iteration's own last
// action. A report is sent once both have ended, by the thread that comes last. So an iteration that
// was reported is done, whatever happens next.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>

#include "base/result.h"
#include "perform/stage/iteration_report.h"

namespace tombolo::stage {

class ReportQueue {
 public:
  using Tell = std::function<Status(const IterationReport&)>;
  ReportQueue(int64_t first_iteration, Tell tell)
      : tell_(std::move(tell)), updated_(first_iteration - 1) {}

  // On the performing thread, iteration by iteration.
  Status hand_in(IterationReport report) {
    std::unique_lock lock(mutex_);
    if (updated_ < report.iteration) {
      waiting_[report.iteration] = std::move(report);
      return {};
    }
    report.end = std::max(report.end, updated_at_);
    lock.unlock();
    return tell_ ? tell_(report) : Status{};
  }

  // On the thread that updates: all updates of the iteration are done, at `now` of the Trace.
  Status updated(int64_t iteration, SimTime now) {
    std::unique_lock lock(mutex_);
    updated_ = iteration;
    updated_at_ = now;
    auto node = waiting_.extract(iteration);
    lock.unlock();
    if (node.empty() || !tell_) return {};
    node.mapped().end = std::max(node.mapped().end, now);
    return tell_(node.mapped());
  }

 private:
  const Tell tell_;
  std::mutex mutex_;
  std::map<int64_t, IterationReport> waiting_;
  int64_t updated_;
  SimTime updated_at_;
};

}  // namespace tombolo::stage
