#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/piped_input.h"

namespace tombolo {
namespace {

std::string hint_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "freeing space, or another folder for the output";
    case EFBIG:
      return "raising the file size limit (ulimit -f), or another folder for the output";
    case EACCES:
    case EPERM:
    case EROFS:
      return "a path that this user may use";
    case ENOENT:
      return "checking the spelling of the path";
    case EISDIR:
      return "the path of a file, not of a folder";
    case ENXIO:
      return "the path of a file, a FIFO or a device";
    default:
      return "";
  }
}

Error file_error(const std::string& path, const char* doing, int error) {
  return {ErrorCode::kUnusable,
          fmt::format("{}: cannot {}: {}", path, doing, std::strerror(error)),
          {},
          hint_for(error),
          {.file = path}};
}

std::string folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// As many as Linux follows.
constexpr int kLinksMax = 40;

// Where a chain of symbolic links ends, whether or not anything is there.
Result<std::string> end_of_links(const std::string& path) {
  namespace fs = std::filesystem;
  fs::path at = path;
  std::error_code ec;
  for (int links = 0; fs::is_symlink(at, ec); ++links) {
    if (links == kLinksMax) return fail(file_error(path, "follow the link", ELOOP));
    const fs::path next = fs::read_symlink(at, ec);
    if (ec) return fail(file_error(path, "follow the link", ec.value()));
    at = at.parent_path() / next;  // an absolute one replaces it
  }
  return at.string();
}

// Pipes and devices may know no such thing.
int flush_to_disk(int fd) {
  const int error = fsync(fd) == 0 ? 0 : errno;
  return error == EINVAL || error == ENOTSUP || error == EROFS ? 0 : error;
}

bool is_stdout(const struct stat& there) {
  struct stat about {};
  return fstat(STDOUT_FILENO, &about) == 0 && about.st_dev == there.st_dev &&
         about.st_ino == there.st_ino;
}

// The new file's owner and mode are those of the one that it will replace. A group's permissions are
// of no use to another group.
void take_after(int fd, const struct stat& old) {
  const bool same_group =
      fchown(fd, old.st_uid, old.st_gid) == 0 || fchown(fd, uid_t(-1), old.st_gid) == 0;
  fchmod(fd, old.st_mode & (same_group ? 0777 : 0707));
}

}  // namespace

Result<std::string> read_file(const std::string& path, int64_t limit) {
  const int fd = open_input(path, limit);
  if (fd < 0) return fail(file_error(path, "open it for reading", errno));
  std::string out;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const Error error = file_error(path, "read it", errno);
      close(fd);
      return fail(error);
    }
    if (n == 0) break;
    out.append(buffer, static_cast<size_t>(n));
    if (static_cast<int64_t>(out.size()) > limit) {
      close(fd);
      return unusable(fmt::format("{}: larger than the limit of {} bytes", path, limit));
    }
  }
  close(fd);
  return out;
}

AtomicFile::AtomicFile(std::string path, std::string place, std::string temporary, int fd)
    : path_(std::move(path)), place_(std::move(place)), temporary_(std::move(temporary)), fd_(fd) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      place_(std::move(other.place_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Error AtomicFile::error(const char* doing) const { return file_error(path_, doing, errno); }

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  if (path == "-") return in_place(path, fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  struct stat old {};
  const bool exists = stat(path.c_str(), &old) == 0;
  if (exists && S_ISDIR(old.st_mode)) return fail(file_error(path, "write it", EISDIR));
  if (exists && is_stdout(old)) return in_place(path, fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  if (exists && !S_ISREG(old.st_mode))
    return in_place(path, open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  const std::string place = TRY(end_of_links(path));
  std::string temporary = place + ".XXXXXX.tmp";
  const int fd = mkostemps(temporary.data(), 4, O_CLOEXEC);
  if (fd < 0) return fail(file_error(path, "create it", errno));
  if (exists) {
    take_after(fd, old);
  } else {
    fchmod(fd, 0644);
  }
  return AtomicFile(path, place, temporary, fd);
}

Result<AtomicFile> AtomicFile::in_place(const std::string& path, int fd) {
  if (fd < 0) return fail(file_error(path, "open it for writing", errno));
  return AtomicFile(path, path, "", fd);
}

Status AtomicFile::write(std::string_view bytes) {
  CHECK(fd_ >= 0, "{} bytes for {}, which is committed or moved away", bytes.size(), path_);
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(error("write it"));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Status AtomicFile::commit() {
  CHECK(fd_ >= 0, "{} is committed or moved away already", path_);
  if (temporary_.empty()) {
    if (const int error = flush_to_disk(fd_)) return fail(file_error(path_, "write it", error));
    close(std::exchange(fd_, -1));
    return {};
  }
  if (fsync(fd_) != 0) return fail(error("write it to disk"));
  if (rename(temporary_.c_str(), place_.c_str()) != 0) return fail(error("rename it into place"));
  close(std::exchange(fd_, -1));
  return sync_folder(folder_of(place_));  // the rename itself must survive a power cut too
}

Status AtomicFile::commit_as(const std::string& path) {
  CHECK(folder_of(path) == folder_of(path_), "{} is not in the folder of {}", path, path_);
  if (path == path_) return commit();
  if (temporary_.empty())
    return unusable(fmt::format("{}: no regular file, which cannot be renamed", path_),
                    "removing it");
  place_ = TRY(end_of_links(path));
  path_ = path;
  return commit();
}

Status write_file(const std::string& path, std::string_view bytes) {
  AtomicFile file = TRY(AtomicFile::create(path));
  TRY(file.write(bytes));
  return file.commit();
}

Status read_part(const std::string& path, int64_t offset, std::span<std::byte> out) {
  CHECK(offset >= 0, "{} bytes from {} on", out.size(), offset);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(file_error(path, "open it for reading", errno));
  size_t done = 0;
  int error = 0;
  while (done < out.size()) {
    const ssize_t n =
        pread(fd, out.data() + done, out.size() - done, offset + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) error = errno;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  close(fd);
  if (error != 0) return fail(file_error(path, "read it", error));
  if (done == out.size()) return {};
  return unusable(
      fmt::format("{}: it ends before byte {}", path, offset + static_cast<int64_t>(out.size())));
}

Status sync_folder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return fail(file_error(path, "open the folder", errno));
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  if (error == 0 || error == EINVAL || error == ENOTSUP) return {};
  return fail(file_error(path, "write the folder to disk", error));
}

Status check_writable(const std::string& folder) {
  TRY(make_directories(folder));
  std::string probe = folder + "/probe.XXXXXX.tmp";
  const int fd = mkostemps(probe.data(), 4, O_CLOEXEC);
  if (fd < 0) return fail(file_error(folder, "write into it", errno));
  close(fd);
  unlink(probe.c_str());
  return {};
}

Status make_directories(const std::string& path) {
  std::error_code ec;
  std::filesystem::create_directories(path, ec);
  if (ec) return fail(file_error(path, "create the folder", ec.value()));
  return {};
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

std::string sibling_path(const std::string& base_file, const std::string& name) {
  if (std::filesystem::path(name).is_absolute() || has_no_folder(base_file)) return name;
  return (std::filesystem::path(base_file).parent_path() / name).lexically_normal().string();
}

std::string path_seen_from(const std::string& base_file, const std::string& path) {
  namespace fs = std::filesystem;
  if (fs::path(path).is_absolute()) return path;
  const fs::path folder = fs::absolute(base_file).lexically_normal().parent_path();
  return fs::absolute(path).lexically_normal().lexically_relative(folder).string();
}

}  // namespace tombolo
