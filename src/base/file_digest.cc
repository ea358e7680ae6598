#include "base/file_digest.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/hash.h"

namespace tombolo {
namespace {

constexpr size_t kDigestPiece = 1 << 20;

Error unreadable(const std::string& path, int error) {
  return {ErrorCode::kUnusable,
          fmt::format("{}: cannot read it: {}", path, std::strerror(error)),
          {},
          ""};
}

Result<FileDigest> digest_file(const std::string& path, bool forget) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(unreadable(path, errno));
  // Pages that are on disk already are dropped; on a file system in memory nothing happens.
  if (forget) static_cast<void>(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
  RunningDigest digest;
  FileDigest out;
  std::vector<char> buffer(kDigestPiece);
  while (true) {
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const Error error = unreadable(path, errno);
      close(fd);
      return fail(error);
    }
    if (n == 0) break;
    digest.add({buffer.data(), static_cast<size_t>(n)});
    out.bytes += n;
  }
  close(fd);
  out.digest = digest.text();
  return out;
}

}  // namespace

Result<FileDigest> digest_of_file(const std::string& path) { return digest_file(path, false); }
Result<FileDigest> digest_on_disk(const std::string& path) { return digest_file(path, true); }

}  // namespace tombolo
