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
  std::vector<std::pair<std::string, std::string>> environment;  // beside what this process has
  int stdout_fd = -1;             // where its standard output goes; -1: to standard error
  std::string network_namespace;  // it runs in there, a path for setns(); empty: as this process
};

// The child inherits nothing but the three standard streams: no socket of ours stays open in it.
Result<pid_t> spawn(const ChildOptions& options);

// Becomes that program, as exec does: comes back only where that fails.
Error become(const ChildOptions& options);

// Blocks until the child has ended; its wait status.
int await_exit(pid_t child);

// What starts processes, waits for them and signals them, passed in: the machine's, or an ocean's.
class Processes {
 public:
  virtual ~Processes() = default;
  virtual Result<pid_t> spawn(const ChildOptions& options) = 0;
  // Blocks until the child has ended. Its pid stays its own until await_exit(), so nobody signals a
  // stranger before.
  virtual void await_end(pid_t child) = 0;
  virtual int await_exit(pid_t child) = 0;
  virtual void signal(pid_t child, int number) = 0;
};
Processes& system_processes();

// A launcher has a socket for each rank, and 1,024 open files are what many systems begin with: asks
// for as many as the hard limit says, up to 65,536.
void allow_many_files();

// "killed by signal 9 (Killed)", "it exited with code 2".
std::string describe_exit(int status);

// The path of a program that lies beside the one that is running. Unusable where there is none.
Result<std::string> sibling_program(const std::string& name);

}  // namespace tombolo::run
