#include "perform/train/strand_threads.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::train {

StrandThreads::StrandThreads(size_t count) : wanted_(count), ended_(count) {
  for (size_t number = 0; number < count; ++number)
    threads_.emplace_back([this, number] { serve(number); });
}

StrandThreads::~StrandThreads() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& each : threads_) each.join();
}

void StrandThreads::serve(size_t number) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || wanted_[number]; });
    if (ending_) return;
    const Work& work = *wanted_[number];
    lock.unlock();
    work();
    lock.lock();
    wanted_[number] = nullptr;
    ended_[number] = true;
    changed_.notify_all();
  }
}

void StrandThreads::run(std::span<const Work> works, const std::function<void(size_t)>& on_end) {
  CHECK(works.size() <= threads_.size(), "{} works for {} strands", works.size(), threads_.size());
  std::unique_lock lock(mutex_);
  for (size_t i = 0; i < works.size(); ++i) wanted_[i] = &works[i];
  changed_.notify_all();
  for (size_t told = 0; told < works.size(); ++told) {
    const auto next = [&] { return std::find(ended_.begin(), ended_.end(), true); };
    changed_.wait(lock, [&] { return next() != ended_.end(); });
    const auto which = static_cast<size_t>(next() - ended_.begin());
    ended_[which] = false;
    lock.unlock();
    on_end(which);
    lock.lock();
  }
}

}  // namespace tombolo::train
