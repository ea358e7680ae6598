#include "graph/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tombolo::graph {
namespace {

constexpr size_t kChunk = size_t{256} << 10;

}  // namespace

struct ByteSource::File {
  gzFile file = nullptr;
  std::string buffer;
  bool ended = false;

  ~File() {
    if (file) gzclose(file);
  }
};

ByteSource::ByteSource() = default;
ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource::~ByteSource() = default;

Result<ByteSource> ByteSource::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return unusable(fmt::format("{}: cannot open it for reading: {}", path, std::strerror(errno)),
                    "checking the spelling of the path");
  }
  struct stat about;
  if (fstat(fd, &about) == 0 && S_ISDIR(about.st_mode)) {
    close(fd);
    return unusable(fmt::format("{}: is a folder", path), "the path of a file");
  }
  ByteSource source;
  source.file_ = std::make_unique<File>();
  source.file_->file = gzdopen(fd, "rb");
  if (!source.file_->file) {
    close(fd);
    return failed(fmt::format("{}: no memory to read it", path));
  }
  gzbuffer(source.file_->file, kChunk);
  return source;
}

ByteSource ByteSource::over(std::string_view bytes) {
  ByteSource source;
  source.memory_ = bytes;
  return source;
}

bool ByteSource::want(size_t size) {
  if (memory_.size() - at_ >= size) return true;
  if (!file_) return false;
  std::string& buffer = file_->buffer;
  buffer.erase(0, at_);
  at_ = 0;
  while (buffer.size() < size && !file_->ended && problem_.empty()) {
    // As much again as there is, at most: so growing costs linear time and no length is believed.
    const size_t before = buffer.size();
    const size_t more = std::max(kChunk, std::min(before, size - before));
    buffer.resize(before + more);
    const int n = gzread(file_->file, buffer.data() + before, static_cast<unsigned>(more));
    buffer.resize(before + static_cast<size_t>(std::max(n, 0)));
    if (static_cast<size_t>(std::max(n, 0)) == more) continue;
    int error = Z_OK;
    const char* why = gzerror(file_->file, &error);
    if (error == Z_ERRNO) {
      problem_ = fmt::format("cannot read it: {}", std::strerror(errno));
    } else if (error == Z_BUF_ERROR) {
      problem_ = "its gzip stream ends too early";
    } else if (error != Z_OK && error != Z_STREAM_END) {
      problem_ = fmt::format("its gzip stream is broken: {}", why);
    }
    file_->ended = true;
  }
  memory_ = buffer;
  return memory_.size() >= size;
}

}  // namespace tombolo::graph
