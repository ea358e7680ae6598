// Passes that are computed at the same time, each on a thread of its own (strands: Wang et al. 2024, DHelix,
// section 3), so that the waits of one hide behind the computation of the other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace tombolo::train {

class StrandThreads {
 public:
  using Work = std::function<void()>;  // throws nothing

  explicit StrandThreads(size_t count);
  ~StrandThreads();
  StrandThreads(const StrandThreads&) = delete;

  // At most as many works as threads. on_end(i) is called on the calling thread as soon as work i has ended;
  // if several have, the lowest i first. Returns when all have ended. One call at a time.
  void run(std::span<const Work> works, const std::function<void(size_t)>& on_end);

 private:
  void serve(size_t number);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const Work*> wanted_;  // by thread; null: nothing to do
  std::vector<bool> ended_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tombolo::train
