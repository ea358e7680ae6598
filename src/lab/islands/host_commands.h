// The commands that run on hosts: started in the host's namespace, under its name, and awaited.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "lab/islands/bring_up.h"

namespace tombolo::islands {

// Moves the calling process to a host: its network, its host name, TOMBOLO_HOST. The process must
// have one thread only. For a process that is about to exec another program.
Status move_to(const cluster::Host& host);

class Commands {
 public:
  struct Options {
    std::vector<std::string> command;
    std::vector<const Island*> where;
    // Output goes through us and gets the host's name before each line; there is no input.
    bool prefixed = false;
    bool foreground = false;  // hand the terminal over
  };
  // TOMBOLO_ISLANDS is in the environment already.
  static Result<Commands> start(const Options& options);

  // To every command that is still running, and to what it started in its process group.
  void signal(int number) const;
  // Call for each child that waitpid() returned; children that are not ours (orphans) are ignored.
  void ended(pid_t pid, int status);
  bool done() const;
  // Of the first host whose command failed, 128 + n where signal n killed it; else 0.
  int exit_code() const;

  // Where to listen for output, and what to do when there is some. EOF removes the descriptor.
  std::vector<int> outputs() const;
  void pump(int fd);
  // The rest of the output, as far as it has been written. Call when all is done.
  void drain();

 private:
  struct Running {
    std::string host;
    pid_t pid = -1;
    bool ended = false;
    int status = 0;
    FileDescriptor output;
    std::string line;  // begun, not ended
  };
  std::vector<Running> running_;
};

}  // namespace tombolo::islands
