// A file that is read where it lies: what is looked at comes into memory, and can be let go again.
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

  // To be asked before reading: looking at what a file has lost since it was opened ends the
  // process (SIGBUS). Unusable where it has become shorter. Costs a system call.
  Status check_length() const;

  // Places are looked at in no order: the kernel reads what is asked for, not what lies around it.
  void expect_random() const;
  // These bytes are looked at next: they are read at once, not page by page.
  void fetch(size_t begin, size_t end) const;
  // Lets go of the pages from `begin` to `end`, and of what the kernel has put into memory around
  // them; they stay in its cache as long as it likes.
  void release(size_t begin, size_t end) const;

 private:
  MappedFile() = default;
  std::string path_;
  const std::byte* begin_ = nullptr;
  size_t size_ = 0;
  uint64_t device_ = 0, inode_ = 0;
};

}  // namespace tombolo::data
