#include "base/parallel.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "base/interruption.h"

namespace tombolo {

void parallel_for(size_t count, int threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::mutex one_at_a_time;
  std::exception_ptr first;
  const auto take = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) {
        stop_if_interrupted();
        work(i);
      }
    } catch (...) {
      next = count;
      const std::lock_guard lock(one_at_a_time);
      if (!first) first = std::current_exception();
    }
  };
  Interruption* const interruption = Interruption::of_this_thread();
  const WorkLimit* const limit = WorkLimit::of_this_thread();
  std::vector<std::thread> helpers;
  const size_t wanted = std::min(count, static_cast<size_t>(std::max(threads, 1)));
  helpers.reserve(wanted);
  try {
    while (helpers.size() + 1 < wanted) {
      helpers.emplace_back([&] {
        const Interruption::Watched watched(interruption);
        const WorkLimit::Shared shared(limit);
        take();
      });
    }
  } catch (const std::system_error&) {
    // No more threads are to be had: those that are there do the work.
  }
  take();
  for (std::thread& helper : helpers) helper.join();
  if (first) std::rethrow_exception(first);
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
