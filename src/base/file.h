// Files: read whole, written whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tombolo {

// The whole file; "-" is standard input, and what comes through a pipe can be read again
// (piped_input.h). Unusable if it cannot be read or is larger than limit (default 1 GiB).
Result<std::string> read_file(const std::string& path, int64_t limit = int64_t{1} << 30);

// Nothing half-written, ever: bytes go to a temporary name in the same folder, which is fsynced and
// renamed onto `path` by commit(). Without commit() the destructor removes the temporary file.
//
// A symbolic link is followed and kept, also one whose target does not exist yet. An existing file
// keeps its mode, and its owner where this process may give files away. What exists and is not a
// regular file (a device, a FIFO), or is what stdout goes to, is never replaced: it is opened and
// written in place, so that what was written before an error stays written. "-" is stdout.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status write(std::string_view bytes);
  Status commit();
  // Under another name of the same folder, for files that are named after what they hold.
  Status commit_as(const std::string& path);

 private:
  AtomicFile(std::string path, std::string place, std::string temporary, int fd);
  static Result<AtomicFile> in_place(const std::string& path, int fd);
  Error error(const char* doing) const;
  std::string path_;       // as the caller calls it
  std::string place_;      // where its links lead: what is replaced
  std::string temporary_;  // empty: written in place
  int fd_ = -1;
};

Status write_file(const std::string& path, std::string_view bytes);

// Fills `out` with the file's bytes from `offset` on. Unusable where the file ends before.
Status read_part(const std::string& path, int64_t offset, std::span<std::byte> out);

// Makes names that were added to the folder, or removed from it, survive a power cut. Succeeds on
// file systems that cannot sync a folder (EINVAL, ENOTSUP).
Status sync_folder(const std::string& path);

// Checks that a file can be created in this folder, which is created if missing. Leaves no file
// there.
Status check_writable(const std::string& folder);

// Creates the folder and its parents; fine if it exists.
Status make_directories(const std::string& path);

// The text without the byte order mark that some programs write before UTF-8.
std::string_view without_byte_order_mark(std::string_view text);

// "dir/name" with name taken relative to the folder of `base_file`, unless it is absolute. A pipe
// lies in no folder: then relative to the working folder.
std::string sibling_path(const std::string& base_file, const std::string& name);

// The inverse: how `base_file` must name a path of this process. Absolute paths stay absolute.
std::string path_seen_from(const std::string& base_file, const std::string& path);

}  // namespace tombolo
