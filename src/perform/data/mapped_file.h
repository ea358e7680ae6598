// A memory-mapped file: pages are loaded when they are read, and can be released again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace tombolo::data {

class MappedFile {
 public:
  // Unusable where it cannot be opened. Takes no memory and, once open, no file descriptor.
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {begin_, size_}; }
  int64_t size() const { return static_cast<int64_t>(size_); }

  // Call before reading: a read beyond the end of a file that was truncated since it was opened
  // kills the process (SIGBUS). Unusable if it has become shorter. Costs a system call.
  Status check_length() const;

  // Access is random: the kernel reads what is asked for, without read-ahead.
  void expect_random() const;
  // These bytes are read next: loads them at once, not page by page.
  void fetch(size_t begin, size_t end) const;
  // Releases the pages from `begin` to `end`, and those that the kernel has mapped around them;
  // they may stay in its page cache.
  void release(size_t begin, size_t end) const;

 private:
  MappedFile() = default;
  std::string path_;
  const std::byte* begin_ = nullptr;
  size_t size_ = 0;
  uint64_t device_ = 0, inode_ = 0;
};

}  // namespace tombolo::data
