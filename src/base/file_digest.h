// What a file holds, in a few words: for those who have to know whether it is the same.
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

// The same, from the disk where the system can be asked to forget what it remembers of the file:
// what it was given to write and what is there are two things.
Result<FileDigest> digest_on_disk(const std::string& path);

}  // namespace tombolo
