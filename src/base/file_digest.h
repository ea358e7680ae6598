// The size and digest of a file, to tell whether two files, or two states of one, are the same.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace tombolo {

struct FileDigest {
  int64_t bytes = 0;
  std::string digest;  // hash.h

  bool operator==(const FileDigest&) const = default;
};

// Reads the file once, a piece at a time. Unusable where it cannot be read.
Result<FileDigest> digest_of_file(const std::string& path);

// The same, but read from the disk where the system lets us drop its cache of the file: what was
// written to the cache and what reached the disk may differ.
Result<FileDigest> digest_on_disk(const std::string& path);

}  // namespace tombolo
