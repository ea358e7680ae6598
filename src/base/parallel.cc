#include "base/parallel.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

namespace tombolo {

void parallel_for(size_t count, int threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  const auto take = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> helpers;
  for (int t = 1; t < threads && static_cast<size_t>(t) < count; ++t) helpers.emplace_back(take);
  take();
  for (std::thread& helper : helpers) helper.join();
}

// It has the mask of its parent, from its first instruction on.
std::thread start_without_signals(std::function<void()> work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(work));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

int threads_or_all(int asked) {
  return asked > 0 ? asked : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace tombolo
