// Bytes of a file, or of memory, looked at through a window that grows as far as one message needs.
//
// Files may be gzipped, which shows in their first two bytes. A window never grows before its bytes
// have come, so a message that claims to be huge costs no more than the file has.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/result.h"

namespace tombolo::chakra {

class ByteSource {
 public:
  static Result<ByteSource> open(const std::string& path);
  static ByteSource over(std::string_view bytes);  // which must outlive it
  ByteSource(ByteSource&&) noexcept;
  ByteSource& operator=(ByteSource&&) = delete;
  ~ByteSource();

  // Makes at least `size` bytes visible if the source has them; false if it ends before. An error
  // is in problem().
  bool want(size_t size);
  std::string_view visible() const { return memory_.substr(at_); }
  void consume(size_t size) {  // of what is visible
    CHECK(size <= visible().size(), "{} bytes of {}", size, visible().size());
    at_ += size, position_ += size;
  }
  uint64_t position() const { return position_; }  // of the first visible byte, uncompressed
  const std::string& problem() const { return problem_; }  // "" where all is well

 private:
  struct File;
  ByteSource();

  std::unique_ptr<File> file_;  // null: over memory
  std::string_view memory_;     // what was read and not yet dropped
  size_t at_ = 0;
  uint64_t position_ = 0;
  std::string problem_;
};

// The whole file, unzipped. Unusable if it is larger than limit.
Result<std::string> read_unzipped(const std::string& path, size_t limit);

}  // namespace tombolo::chakra
