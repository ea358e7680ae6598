#include "base/piped_input.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <mutex>
#include <vector>

#include "base/check.h"

namespace tombolo {
namespace {

bool write_all(int fd, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t n = write(fd, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

// To the end, or one byte beyond the limit, by which readers see that there is more.
bool copy(int from, int to, int64_t limit) {
  std::array<char, 1 << 16> buffer{};
  for (int64_t left = limit + 1; left > 0;) {
    const auto most = static_cast<size_t>(std::min(left, static_cast<int64_t>(buffer.size())));
    const ssize_t n = read(from, buffer.data(), most);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    if (n == 0) return true;
    if (!write_all(to, buffer.data(), static_cast<size_t>(n))) return false;
    left -= n;
  }
  return true;
}

// Closes what is only read through, and keeps errno.
int closed(int fd) {
  const int error = errno;
  if (fd != STDIN_FILENO) close(fd);
  errno = error;
  return -1;
}

// A file without a name that has what comes from `from`; -1 with errno.
int kept_in_memory(int from, int64_t limit) {
  const int memory = memfd_create("input", MFD_CLOEXEC);
  if (memory >= 0 && copy(from, memory, limit)) return memory;
  if (memory >= 0) closed(memory);
  return -1;
}

bool comes_once(int fd) {
  struct stat about {};
  return fstat(fd, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode) &&
         !S_ISBLK(about.st_mode);
}

// By name; of one name the last counts.
thread_local std::vector<std::pair<std::string, int>> given;

int opened_again(int memory) {
  return open(fmt::format("/proc/self/fd/{}", memory).c_str(), O_RDONLY | O_CLOEXEC);
}

}  // namespace

GivenInput::GivenInput(std::string name, std::string_view text)
    : name_(std::move(name)), memory_(memfd_create("given", MFD_CLOEXEC)) {
  CHECK(memory_ >= 0 && write_all(memory_, text.data(), text.size()),
        "{} bytes in memory: errno {}", text.size(), errno);
  given.emplace_back(name_, memory_);
}

GivenInput::~GivenInput() {
  std::erase(given, std::pair(name_, memory_));
  close(memory_);
}

int open_input(const std::string& path, int64_t limit) {
  static std::mutex one_at_a_time;
  static std::map<std::string, int> kept;
  for (auto each = given.rbegin(); each != given.rend(); ++each) {
    if (each->first == path) return opened_again(each->second);
  }
  const bool is_stdin = path == "-";
  {
    const std::lock_guard lock(one_at_a_time);
    if (const auto found = kept.find(path); found != kept.end()) return opened_again(found->second);
  }
  const int fd = is_stdin ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || (!is_stdin && !comes_once(fd))) return fd;
  const int memory = kept_in_memory(fd, limit);
  closed(fd);
  if (memory < 0) return -1;
  const std::lock_guard lock(one_at_a_time);
  return opened_again(kept.emplace(path, memory).first->second);
}

bool has_no_folder(const std::string& path) {
  return path == "-" || path == "/dev/stdin" || path.starts_with("/dev/fd/") ||
         path.starts_with("/proc/self/fd/");
}

}  // namespace tombolo
