#include "lab/islands/network_namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

extern char** environ;

namespace tombolo::islands {
namespace {

constexpr const char* kOwnNamespace = "/proc/thread-self/ns/net";

Result<FileDescriptor> own_namespace() {
  FileDescriptor fd(open(kOwnNamespace, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return failed(fmt::format("{}: {}", kOwnNamespace, std::strerror(errno)));
  return fd;
}

// A file without a name, in memory: the input and output of a program.
Result<FileDescriptor> memory_file(const std::string& content) {
  FileDescriptor fd(memfd_create("islands", MFD_CLOEXEC));
  if (!fd.valid()) return failed(fmt::format("memfd_create: {}", std::strerror(errno)));
  const auto size = static_cast<ssize_t>(content.size());
  if (write(fd.get(), content.data(), content.size()) != size || lseek(fd.get(), 0, SEEK_SET)) {
    return failed(fmt::format("writing to memory: {}", std::strerror(errno)));
  }
  return fd;
}

std::string content_of(const FileDescriptor& fd) {
  std::string out(static_cast<size_t>(std::max<off_t>(0, lseek(fd.get(), 0, SEEK_END))), '\0');
  const ssize_t got = pread(fd.get(), out.data(), out.size(), 0);
  out.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
  return out;
}

}  // namespace

Result<NetworkNamespace> NetworkNamespace::create() {
  const FileDescriptor home = TRY(own_namespace());
  if (unshare(CLONE_NEWNET) != 0) {
    return unusable(fmt::format("cannot make a network namespace: {}", std::strerror(errno)),
                    "running as root");
  }
  Result<FileDescriptor> made = own_namespace();
  CHECK(setns(home.get(), CLONE_NEWNET) == 0, "cannot go back to the first network namespace: {}",
        std::strerror(errno));
  return NetworkNamespace(TRY(std::move(made)));
}

std::string NetworkNamespace::path() const {
  return fmt::format("/proc/{}/fd/{}", getpid(), fd_.get());
}

Status NetworkNamespace::inside(const std::function<Status()>& work) const {
  const FileDescriptor home = TRY(own_namespace());
  if (setns(fd_.get(), CLONE_NEWNET) != 0) {
    return failed(fmt::format("setns: {}", std::strerror(errno)));
  }
  Status status = work();
  CHECK(setns(home.get(), CLONE_NEWNET) == 0, "cannot go back to the first network namespace: {}",
        std::strerror(errno));
  return status;
}

Result<ProgramResult> run_program(const std::vector<std::string>& command,
                                  const std::string& input) {
  CHECK(!command.empty(), "a program without a name");
  const FileDescriptor in = TRY(memory_file(input)), out = TRY(memory_file(""));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  // Administrators' programs are not on every user's path.
  int error = ENOENT;
  pid_t child = -1;
  for (const char* folder : {"/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/"}) {
    const std::string program = folder + command.front();
    error = posix_spawn(&child, program.c_str(), &actions, &attributes, arguments.data(), environ);
    if (error != ENOENT) break;
  }
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return unusable(fmt::format("cannot run {}: {}", command.front(), std::strerror(error)),
                    "installing iproute2 (tools/setup)");
  }
  ProgramResult result;
  while (waitpid(child, &result.status, 0) < 0 && errno == EINTR) {
  }
  result.output = content_of(out);
  return result;
}

Status run_ip(const std::string& commands) {
  const ProgramResult done = TRY(run_program({"ip", "-batch", "-"}, commands));
  if (done.status == 0) return {};
  return failed(fmt::format("ip: {}", done.output.substr(0, done.output.find('\n'))));
}

}  // namespace tombolo::islands
