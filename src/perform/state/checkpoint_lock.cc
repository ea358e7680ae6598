#include "perform/state/checkpoint_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/host_name.h"

namespace tombolo::state {
namespace {

constexpr SimDuration kLockGlance{100'000'000};
constexpr size_t kRunNameMax = 4096;

Error lock_error(const std::string& path, const char* doing) {
  return {ErrorCode::kUnusable,
          fmt::format("{}: cannot {} it: {}", path, doing, std::strerror(errno)),
          {},
          "another folder for the checkpoints, or freeing space"};
}

bool knows_locks() { return errno != ENOLCK && errno != ENOSYS && errno != EOPNOTSUPP; }

// The last one to hold it may have removed the file between our opening and locking it.
bool is_still_there(const std::string& path, int fd) {
  struct stat there {
  }, ours{};
  return stat(path.c_str(), &there) == 0 && fstat(fd, &ours) == 0 && there.st_dev == ours.st_dev &&
         there.st_ino == ours.st_ino;
}

Status name_holder(const std::string& path, int fd, const std::string& run) {
  if (ftruncate(fd, 0) != 0) return fail(lock_error(path, "write"));
  // A disk that is nearly full takes a part; only the next write says why.
  for (size_t done = 0; done < run.size();) {
    const ssize_t wrote =
        pwrite(fd, run.data() + done, run.size() - done, static_cast<off_t>(done));
    if (wrote < 0) return fail(lock_error(path, "write"));
    done += static_cast<size_t>(wrote);
  }
  return {};
}

// The name of the run that holds the lock, once we share it; nothing while another process takes or
// releases it.
Result<std::optional<std::string>> share(const std::string& path, int fd, const std::string& run) {
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
    TRY(name_holder(path, fd, run));
  } else if (errno != EWOULDBLOCK) {
    if (knows_locks()) return fail(lock_error(path, "lock"));
    return std::optional(run);
  }
  // Not in one step with the above: another run may come between, and its name is read then.
  if (flock(fd, LOCK_SH | LOCK_NB) != 0) return std::nullopt;
  if (!is_still_there(path, fd)) return std::nullopt;
  std::string name(kRunNameMax, '\0');
  const ssize_t got = pread(fd, name.data(), name.size(), 0);
  if (got < 0) return fail(lock_error(path, "read"));
  name.resize(static_cast<size_t>(got));
  return std::optional(std::move(name));
}

}  // namespace

Result<CheckpointLock> CheckpointLock::take(const std::string& folder, const std::string& run,
                                            Clock& clock, SimDuration patience) {
  const std::string path = folder + "/lock";
  const SimTime until = clock.now() + patience;
  std::string holder;
  while (true) {
    // Who shares the folder may be another user.
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return fail(lock_error(path, "open"));
    auto found = share(path, fd, run);
    if (found && *found && **found == run) return CheckpointLock(path, fd);
    close(fd);
    if (!found) return fail(std::move(found).error());
    if (*found) holder = **found;
    if (clock.now() >= until) break;
    clock.sleep_until(std::min(until, clock.now() + kLockGlance));
  }
  return unusable(fmt::format("{}: another run{} writes its checkpoints here", folder,
                              holder.empty() ? "" : fmt::format(" ({})", holder)),
                  "another directory in [checkpoint], or --checkpoints; or ending that run");
}

CheckpointLock::CheckpointLock(CheckpointLock&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

CheckpointLock::~CheckpointLock() {
  if (fd_ < 0) return;
  if (flock(fd_, LOCK_EX | LOCK_NB) == 0 && is_still_there(path_, fd_)) unlink(path_.c_str());
  close(fd_);
}

std::string run_name(const std::string& output, bool lasting) {
  const std::string folder = std::filesystem::absolute(output).lexically_normal().string();
  const std::string name = fmt::format("{}:{}", host_name(), folder);
  return lasting ? name : fmt::format("{}, process {}", name, getpid());
}

}  // namespace tombolo::state
