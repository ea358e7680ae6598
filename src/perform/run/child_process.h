// Child processes: started, awaited, described.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tombolo::run {

struct ChildOptions {
  std::string program;  // path
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's own
  int stdout_fd = -1;             // where its standard output goes; -1: to standard error
  std::string network_namespace;  // it runs in there, a path for setns(); empty: as this process
};

// The child inherits nothing but the three standard streams: no socket of ours stays open in it.
Result<pid_t> spawn(const ChildOptions& options);

// Replaces this process by that program, as exec does: returns only on failure.
Error become(const ChildOptions& options);

// Blocks until the child has ended; its wait status.
int await_exit(pid_t child);

// Starts processes, waits for them and signals them. An interface, so that tests can replace the
// machine's processes by simulated ones.
class Processes {
 public:
  virtual ~Processes() = default;
  virtual Result<pid_t> spawn(const ChildOptions& options) = 0;
  // Blocks until the child has ended, but does not reap it. Its pid is not reused before
  // await_exit(), so a signal sent until then cannot hit an unrelated process.
  virtual void await_end(pid_t child) = 0;
  virtual int await_exit(pid_t child) = 0;
  virtual void signal(pid_t child, int number) = 0;
};
Processes& system_processes();

// Raises the limit of open files to the hard limit, at most 65,536. A launcher has a socket for each
// rank, and many systems allow 1,024 files by default.
void allow_many_files();

// "killed by signal 9 (Killed)", "it exited with code 2".
std::string describe_exit(int status);

// The path of a program in the same folder as the running one. Unusable if there is none.
Result<std::string> sibling_program(const std::string& name);

}  // namespace tombolo::run
