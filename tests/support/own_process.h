// Runs a test of the ocean (ocean.h) in a process of its own, which threads that are parked in it end with.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "base/check.h"
#include "perform/run/child_process.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TOMBOLO_NO_FORKS 1  // ThreadSanitizer knows no threads that a forked process starts
#endif
#endif

namespace tombolo::ocean {

// What `test` returns, or how its process ended.
inline std::string in_a_process(const std::function<std::string()>& test) {
  int pipe_ends[2];
  CHECK(pipe(pipe_ends) == 0, "no pipe");
  const pid_t child = fork();
  CHECK(child >= 0, "no process");
  if (child == 0) {
    const rlimit patience{60, 60};  // seconds of computing, however busy the machine is
    setrlimit(RLIMIT_CPU, &patience);
    const std::string said = test();
    const auto written = write(pipe_ends[1], said.data(), said.size());
    _exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  close(pipe_ends[1]);
  std::string said;
  char part[4096];
  for (ssize_t n = 0; (n = read(pipe_ends[0], part, sizeof part)) > 0;)
    said.append(part, static_cast<size_t>(n));
  close(pipe_ends[0]);
  const int status = run::await_exit(child);
  return status == 0 ? said : "its process was " + run::describe_exit(status);
}

}  // namespace tombolo::ocean
