#include "perform/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tombolo::data {
namespace {

tl::unexpected<Error> cannot(const std::string& path, const char* doing, int error) {
  return unusable(fmt::format("{}: cannot {}: {}", path, doing, std::strerror(error)),
                  error == ENOENT ? "checking the spelling of the path" : "");
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return cannot(path, "open it for reading", errno);
  struct stat facts {};
  const int known = fstat(fd, &facts) == 0 ? 0 : errno;
  if (known != 0 || !S_ISREG(facts.st_mode)) {
    ::close(fd);
    if (known != 0) return cannot(path, "ask for its length", known);
    return unusable(fmt::format("{}: it is no plain file", path), "the path of a file");
  }
  MappedFile file;
  file.path_ = path;
  file.size_ = static_cast<size_t>(facts.st_size);
  file.device_ = facts.st_dev;
  file.inode_ = facts.st_ino;
  void* mapped = nullptr;
  int error = 0;
  if (file.size_ > 0) {  // nothing of nothing is an error to mmap
    mapped = mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, fd, 0);
    error = errno;
  }
  ::close(fd);
  if (mapped == MAP_FAILED) {
    file.size_ = 0;
    return cannot(path, "map it into memory", error);
  }
  file.begin_ = static_cast<const std::byte*>(mapped);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(begin_, other.begin_);
  std::swap(size_, other.size_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  return *this;
}

MappedFile::~MappedFile() {
  if (begin_) munmap(const_cast<std::byte*>(begin_), size_);
}

Status MappedFile::check_length() const {
  struct stat facts {};
  // A file that was removed or replaced lives on in its mapping.
  if (stat(path_.c_str(), &facts) != 0) return {};
  if (facts.st_dev != device_ || facts.st_ino != inode_) return {};
  if (static_cast<size_t>(facts.st_size) >= size_) return {};
  return unusable(fmt::format("{}: it has {} bytes now, and had {} when it was opened", path_,
                              facts.st_size, size_),
                  "leaving the files of a run alone while it runs; new ones under another name");
}

// Advice may be refused, and then costs nothing but memory or time.
void MappedFile::expect_random() const {
  if (begin_) madvise(const_cast<std::byte*>(begin_), size_, MADV_RANDOM);
}

void MappedFile::fetch(size_t begin, size_t end) const {
  if (begin >= end || end > size_) return;
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  begin -= begin % page;
  madvise(const_cast<std::byte*>(begin_) + begin, end - begin, MADV_WILLNEED);
}

void MappedFile::release(size_t begin, size_t end) const {
  if (begin >= end || end > size_) return;
  // A fault maps what is cached around it, 64 KiB or a large page.
  constexpr size_t kAround = size_t{2} << 20;
  begin -= begin % kAround;
  end = std::min(size_, end + kAround - end % kAround);
  madvise(const_cast<std::byte*>(begin_) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace tombolo::data
