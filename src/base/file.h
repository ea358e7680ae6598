// Files: read whole, written whole or not at all.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tombolo {

// The whole file. Unusable if it cannot be read or is larger than limit (default 1 GiB).
Result<std::string> read_file(const std::string& path, int64_t limit = int64_t{1} << 30);

// Nothing half-written, ever: bytes go to a temporary name in the same folder, which is fsynced and
// renamed onto `path` by commit(). Without commit() the destructor removes the temporary file.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status write(std::string_view bytes);
  Status commit();

 private:
  AtomicFile(std::string path, std::string temporary, int fd);
  Error error(const char* doing) const;
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

Status write_file(const std::string& path, std::string_view bytes);

// Creates the folder and its parents; fine if it exists.
Status make_directories(const std::string& path);

// "dir/name" with name taken relative to the folder of `base_file`, unless it is absolute.
std::string sibling_path(const std::string& base_file, const std::string& name);

}  // namespace tombolo
