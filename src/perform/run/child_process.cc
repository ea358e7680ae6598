#include "perform/run/child_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/check.h"

extern char** environ;

namespace tombolo::run {
namespace {

// The arguments of posix_spawn: pointers into texts that outlive the call.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& more) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      all[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  for (const auto& [key, value] : more) all[key] = value;
  std::vector<std::string> out;
  for (const auto& [key, value] : all) out.push_back(key + "=" + value);
  return out;
}

std::vector<std::string> all_arguments(const ChildOptions& options) {
  CHECK(!options.program.empty(), "a child without a program");
  std::vector<std::string> arguments = {options.program};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  return arguments;
}

Error cannot_start(const std::string& program, int error) {
  return {ErrorCode::kUnusable,
          fmt::format("{}: cannot start it: {}", program, std::strerror(error)),
          {},
          "building all targets: cmake --build --preset release"};
}

// This thread in another network namespace, for as long as the object lives. A child belongs to the
// namespace of the thread that starts it; other threads, and sockets that are open, stay.
class Visit {
 public:
  static Result<Visit> to(const std::string& network_namespace) {
    if (network_namespace.empty()) return Visit(-1);
    const int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    const int there = open(network_namespace.c_str(), O_RDONLY | O_CLOEXEC);
    const bool moved = home >= 0 && there >= 0 && setns(there, CLONE_NEWNET) == 0;
    const int error = errno;
    if (there >= 0) close(there);
    if (moved) return Visit(home);
    if (home >= 0) close(home);
    return unusable(fmt::format("{}: cannot enter the network namespace: {}", network_namespace,
                                std::strerror(error)),
                    "running this inside the islands: tools/islands JOB -- COMMAND");
  }
  Visit(Visit&& other) noexcept : home_(std::exchange(other.home_, -1)) {}
  Visit& operator=(Visit&&) = delete;
  ~Visit() {
    if (home_ < 0) return;
    CHECK(setns(home_, CLONE_NEWNET) == 0, "no way back to the own network namespace: {}",
          std::strerror(errno));
    close(home_);
  }

 private:
  explicit Visit(int home) : home_(home) {}
  int home_;
};

}  // namespace

Result<pid_t> spawn(const ChildOptions& options) {
  std::vector<std::string> arguments = all_arguments(options);
  std::vector<std::string> environment = environment_with(options.environment);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0);
  const int out = options.stdout_fd >= 0 ? options.stdout_fd : STDERR_FILENO;
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);

  pid_t child = -1;
  int error = 0;
  const auto visit = Visit::to(options.network_namespace);
  if (visit) {
    error = posix_spawn(&child, options.program.c_str(), &actions, &attributes,
                        pointers(arguments).data(), pointers(environment).data());
  }
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (!visit) return fail(visit.error());
  if (error != 0) return fail(cannot_start(options.program, error));
  return child;
}

Error become(const ChildOptions& options) {
  std::vector<std::string> arguments = all_arguments(options);
  std::vector<std::string> environment = environment_with(options.environment);
  const auto visit = Visit::to(options.network_namespace);
  if (!visit) return visit.error();
  const int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);  // for the way back
  dup2(options.stdout_fd >= 0 ? options.stdout_fd : STDERR_FILENO, STDOUT_FILENO);
  execve(options.program.c_str(), pointers(arguments).data(), pointers(environment).data());
  const int error = errno;
  dup2(out, STDOUT_FILENO);
  close(out);
  return cannot_start(options.program, error);
}

int await_exit(pid_t child) {
  CHECK(child > 0, "{} is no process", child);  // to the kernel it would be all children
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

namespace {

class SystemProcesses : public Processes {
 public:
  Result<pid_t> spawn(const ChildOptions& options) override { return run::spawn(options); }
  void await_end(pid_t child) override {
    siginfo_t info{};
    while (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) != 0 &&
           errno == EINTR) {
    }
  }
  int await_exit(pid_t child) override { return run::await_exit(child); }
  void signal(pid_t child, int number) override { kill(child, number); }
};

}  // namespace

Processes& system_processes() {
  static SystemProcesses processes;
  return processes;
}

std::string describe_exit(int status) {
  CHECK(WIFSIGNALED(status) || WIFEXITED(status), "wait status {} is no end", status);
  if (WIFSIGNALED(status)) {
    return fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return fmt::format("it exited with code {}", WEXITSTATUS(status));
}

void allow_many_files() {
  constexpr rlim_t kEnough = 65'536;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= kEnough) return;
  files.rlim_cur = std::min(files.rlim_max, kEnough);
  setrlimit(RLIMIT_NOFILE, &files);
}

Result<std::string> sibling_program(const std::string& name) {
  std::error_code ec;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ec);
  const std::string path = (self.parent_path() / name).string();
  if (ec || access(path.c_str(), X_OK) != 0) {
    return unusable(
        fmt::format("{}: there is no such program", path),
        fmt::format("installing the package {0}, or cmake --build --preset release --target {0}",
                    name));
  }
  return path;
}

}  // namespace tombolo::run
