#include "lab/islands/host_commands.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace tombolo::islands {
namespace {

// Between fork and exec: only plain system calls, and words to standard error.
[[noreturn]] void become(const std::vector<std::string>& command, const cluster::Host& host,
                         int output, bool foreground) {
  setpgid(0, 0);
  if (foreground) {
    ::signal(SIGTTOU, SIG_IGN);
    tcsetpgrp(STDIN_FILENO, getpid());
    ::signal(SIGTTOU, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (output >= 0) {
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    const int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, STDIN_FILENO);
  }
  if (const Status moved = move_to(host); !moved) {
    fmt::print(stderr, "{}\n", moved.error().text());
    _exit(1);
  }
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  const int error = errno;
  fmt::print(stderr, "{}: {}\n", command[0], std::strerror(error));
  _exit(error == ENOENT ? 127 : 126);  // as a shell would
}

}  // namespace

Status move_to(const cluster::Host& host) {
  const FileDescriptor network(open(host.network_namespace.c_str(), O_RDONLY | O_CLOEXEC));
  if (!network.valid() || setns(network.get(), CLONE_NEWNET) != 0) {
    return failed(fmt::format("cannot enter {} ({}): {}", host.name, host.network_namespace,
                              std::strerror(errno)));
  }
  // Launchers tell hosts apart by name.
  if (unshare(CLONE_NEWUTS) != 0 || sethostname(host.name.data(), host.name.size()) != 0) {
    return failed(fmt::format("cannot take the name {}: {}", host.name, std::strerror(errno)));
  }
  setenv("TOMBOLO_HOST", host.name.c_str(), 1);
  return {};
}

Result<Commands> Commands::start(const Options& options) {
  CHECK(!options.command.empty() && !options.where.empty(), "{} words for {} hosts",
        options.command.size(), options.where.size());
  Commands out;
  for (const Island* island : options.where) {
    Running running{.host = island->host.name};
    FileDescriptor write_end;
    if (options.prefixed) {
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0) {
        return failed(fmt::format("pipe: {}", std::strerror(errno)));
      }
      running.output = FileDescriptor(ends[0]);
      write_end = FileDescriptor(ends[1]);
      fcntl(ends[0], F_SETFL, O_NONBLOCK);
    }
    std::fflush(nullptr);
    running.pid = fork();
    if (running.pid == 0) {
      become(options.command, island->host, write_end.get(), options.foreground);
    }
    if (running.pid < 0) return failed(fmt::format("fork: {}", std::strerror(errno)));
    setpgid(running.pid, running.pid);  // in parent and child, so that signal() finds the group
    out.running_.push_back(std::move(running));
  }
  return out;
}

void Commands::signal(int number) const {
  for (const Running& running : running_) {
    if (!running.ended) kill(-running.pid, number);
  }
}

void Commands::ended(pid_t pid, int status) {
  for (Running& running : running_) {
    if (running.pid != pid) continue;
    running.ended = true;
    running.status = status;
  }
}

bool Commands::done() const {
  return std::all_of(running_.begin(), running_.end(), [](const Running& r) { return r.ended; });
}

int Commands::exit_code() const {
  for (const Running& running : running_) {
    if (WIFSIGNALED(running.status)) return 128 + WTERMSIG(running.status);
    if (WEXITSTATUS(running.status) != 0) return WEXITSTATUS(running.status);
  }
  return 0;
}

std::vector<int> Commands::outputs() const {
  std::vector<int> out;
  for (const Running& running : running_) {
    if (running.output.valid()) out.push_back(running.output.get());
  }
  return out;
}

void Commands::pump(int fd) {
  for (Running& running : running_) {
    if (running.output.get() != fd || fd < 0) continue;
    char bytes[4096];
    ssize_t got = 0;
    while ((got = read(fd, bytes, sizeof bytes)) > 0) {
      for (const char c : std::string_view(bytes, static_cast<size_t>(got))) {
        if (c != '\n') {
          running.line += c;
          continue;
        }
        fmt::print("{}: {}\n", running.host, running.line);
        running.line.clear();
      }
    }
    if (got == 0) running.output.reset();
    std::fflush(stdout);
  }
}

void Commands::drain() {
  for (const int fd : outputs()) pump(fd);
  for (Running& running : running_) {
    if (!running.line.empty()) fmt::print("{}: {}\n", running.host, running.line);
    running.line.clear();
  }
  std::fflush(stdout);
}

}  // namespace tombolo::islands
