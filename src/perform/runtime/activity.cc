#include "perform/runtime/activity.h"

namespace tombolo::runtime {

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

void Activity::count(For what, int more) {
  const std::lock_guard lock(mutex_);
  Waits& waits = std::this_thread::get_id() == performing_ ? of_performing_ : of_exchange_;
  (what == For::kOthers ? waits.others : waits.exchange) += more;
}

Activity::Wait::Wait(Activity* activity, For what) : activity_(activity), what_(what) {
  if (activity_) activity_->count(what_, 1);
}

Activity::Wait::~Wait() {
  if (activity_) activity_->count(what_, -1);
}

Result<Messenger::Came> WatchedMessenger::receive_any(std::span<const Awaited> wanted) {
  Result<Came> came = [&] {
    const Activity::Wait wait(&activity_);
    return messenger_.receive_any(wanted);
  }();
  activity_.add_done();
  return came;
}

}  // namespace tombolo::runtime
