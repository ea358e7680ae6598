#include "perform/stage/realtime.h"

#include <sched.h>

#include <charconv>
#include <filesystem>
#include <vector>

#include "base/check.h"

namespace tombolo::stage {
namespace {

std::vector<pid_t> own_threads() {
  std::vector<pid_t> out;
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", ec)) {
    const std::string name = entry.path().filename().string();
    pid_t thread = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), thread);
    if (error == std::errc{} && end == name.data() + name.size()) out.push_back(thread);
  }
  return out;
}

}  // namespace

bool make_realtime(int priority) {
  CHECK(priority >= 1 && priority <= 99, "a priority of {}", priority);
  const sched_param parameters{.sched_priority = priority};
  const std::vector<pid_t> threads = own_threads();
  bool all = !threads.empty();
  for (const pid_t thread : threads) {
    all = all && sched_setscheduler(thread, SCHED_FIFO, &parameters) == 0;
  }
  return all;
}

}  // namespace tombolo::stage
