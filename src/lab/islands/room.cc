#include "lab/islands/room.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "lab/islands/network_namespace.h"

namespace tombolo::islands {
namespace {

Status mount_at(const char* source, const std::string& target, const char* type,
                unsigned long flags) {
  if (mount(source, target.c_str(), type, flags, nullptr) == 0) return {};
  return failed(fmt::format("mounting {} on {}: {}", source, target, std::strerror(errno)));
}

// The new room: mounts of its own that are invisible outside, and a /proc of its own processes.
Result<Room> furnish(bool foreground) {
  // While /proc still shows the processes outside, /proc/self tells our number there.
  char own[32];
  const ssize_t length = readlink("/proc/self", own, sizeof own - 1);
  Room room{.foreground = foreground};
  if (length > 0) room.pid_outside = std::atoi(std::string(own, own + length).c_str());
  if (unshare(CLONE_NEWNS) != 0) {
    return failed(fmt::format("cannot make a mount namespace: {}", std::strerror(errno)));
  }
  TRY(mount_at("none", "/", nullptr, MS_REC | MS_PRIVATE));
  TRY(mount_at("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC));
  return room;
}

[[noreturn]] void first_process(const std::function<int(const Room&)>& inside, int alive_fd,
                                bool foreground) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Had the parent died before that, its end of the pipe would be closed.
  pollfd parent{alive_fd, POLLIN, 0};
  if (poll(&parent, 1, 0) != 0) _exit(1);
  setpgid(0, 0);  // a terminal's ^C reaches the parent alone, which passes it on: once
  const Result<Room> room = furnish(foreground);
  if (!room) {
    fmt::print(stderr, "{}\n", room.error().text());
    _exit(room.error().exit_code());
  }
  const int code = inside(*room);
  std::fflush(nullptr);
  _exit(code);  // the kernel ends all other processes in the room
}

// Forwards signals until the child has ended; returns its wait status. A SIGHUP from the kernel
// means that the terminal is gone; one from a person asks to read the scenario again.
int pass_signals(pid_t child, const sigset_t& signals) {
  for (;;) {
    siginfo_t info{};
    const int number = sigwaitinfo(&signals, &info);
    if (number < 0) continue;
    if (number != SIGCHLD) {
      kill(child, number == SIGHUP && info.si_code == SI_KERNEL ? SIGTERM : number);
      continue;
    }
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return status;
  }
}

}  // namespace

Result<int> run_in_room(const std::function<int(const Room&)>& inside) {
  CHECK(inside, "a room without members");
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const bool foreground = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();

  int alive[2];
  if (pipe2(alive, O_CLOEXEC) != 0) return failed(fmt::format("pipe: {}", std::strerror(errno)));
  FileDescriptor alive_read(alive[0]), alive_write(alive[1]);
  const FileDescriptor home(open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC));
  if (unshare(CLONE_NEWPID) != 0) {
    return unusable(fmt::format("cannot make a PID namespace: {}", std::strerror(errno)),
                    "running as root");
  }
  std::fflush(nullptr);
  const pid_t child = fork();
  const int fork_error = errno;
  if (child == 0) {
    alive_write.reset();
    first_process(inside, alive_read.get(), foreground);
  }
  setns(home.get(), CLONE_NEWPID);  // the room is the child's alone
  if (child < 0) return failed(fmt::format("fork: {}", std::strerror(fork_error)));

  const int status = pass_signals(child, signals);
  if (foreground) {  // the command had the terminal
    signal(SIGTTOU, SIG_IGN);
    tcsetpgrp(STDIN_FILENO, getpgrp());
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return failed(fmt::format("the emulator was killed by signal {} ({})", WTERMSIG(status),
                            strsignal(WTERMSIG(status))));
}

Status name_hosts(const std::vector<cluster::Host>& hosts) {
  // A file system in memory, for a moment on /proc, which is the one folder that surely exists:
  // what is bound elsewhere stays when it goes.
  TRY(mount_at("tmpfs", "/proc", "tmpfs", 0));
  {
    std::ofstream file("/proc/hosts");
    file << "127.0.0.1 localhost\n";
    for (const cluster::Host& host : hosts) file << host.address << ' ' << host.name << '\n';
  }
  chmod("/proc/hosts", 0644);
  Status named;
  if (std::filesystem::exists("/etc/hosts")) {
    named = mount_at("/proc/hosts", "/etc/hosts", nullptr, MS_BIND);
  }
  umount2("/proc", MNT_DETACH);
  TRY(std::move(named));
  if (!std::filesystem::exists("/run/netns")) return {};
  TRY(mount_at("tmpfs", "/run/netns", "tmpfs", 0));
  for (const cluster::Host& host : hosts) {
    const std::string place = "/run/netns/" + host.name;
    std::ofstream{place};
    TRY(mount_at(host.network_namespace.c_str(), place, nullptr, MS_BIND));
  }
  return {};
}

}  // namespace tombolo::islands
