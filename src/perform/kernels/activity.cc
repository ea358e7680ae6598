#include "perform/kernels/activity.h"

#include <algorithm>

namespace tombolo::kernels {

void Activity::set_working(bool working) {
  const std::lock_guard lock(mutex_);
  working_ = working;
}

void Activity::add_done() {
  const std::lock_guard lock(mutex_);
  ++done_;
}

Activity::Report Activity::report() const {
  const std::lock_guard lock(mutex_);
  const bool waits =
      of_performing_.exchange > 0 ? of_exchange_.others > 0 : of_performing_.others > 0;
  return {done_, waits || !working_};
}

void Activity::count(For what, Thread thread, int more) {
  const std::lock_guard lock(mutex_);
  Waits& waits = thread == Thread::kPerforming ? of_performing_ : of_exchange_;
  (what == For::kOthers ? waits.others : waits.exchange) += more;
}

Activity::Wait::Wait(Activity* activity, For what, Thread thread)
    : activity_(activity), what_(what), thread_(thread) {
  if (activity_) activity_->count(what_, thread_, 1);
}

Activity::Wait::~Wait() {
  if (activity_) activity_->count(what_, thread_, -1);
}

Result<Messenger::Came> WatchedMessenger::receive_any(std::span<const Awaited> wanted) {
  Result<Came> came = [&] {
    const bool of_exchange = std::any_of(wanted.begin(), wanted.end(), [](const Awaited& each) {
      return each.tag.tensor == kWakeTensor;
    });
    const Activity::Wait wait(
        &activity_, Activity::For::kOthers,
        of_exchange ? Activity::Thread::kExchange : Activity::Thread::kPerforming);
    return messenger_.receive_any(wanted);
  }();
  activity_.add_done();
  return came;
}

}  // namespace tombolo::kernels
