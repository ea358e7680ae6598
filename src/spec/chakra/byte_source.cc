#include "spec/chakra/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/piped_input.h"

namespace tombolo::chakra {
namespace {

constexpr size_t kChunk = size_t{256} << 10;
constexpr int64_t kPipedMax = int64_t{2} << 30;  // what comes through a pipe is kept

}  // namespace

struct ByteSource::File {
  int fd = -1;  // plain, unless
  gzFile gzip = nullptr;
  size_t chunk = kChunk;  // small for small files: a run may have one per rank
  std::string buffer;
  bool ended = false;

  ~File() {
    if (gzip) {
      gzclose(gzip);
    } else if (fd >= 0) {
      close(fd);
    }
  }

  // As read(2). Fewer bytes than asked for mean the end, or an error that why() tells.
  ssize_t read(char* into, size_t size) {
    if (gzip) return gzread(gzip, into, static_cast<unsigned>(size));
    size_t got = 0;
    while (got < size) {
      const ssize_t n = ::read(fd, into + got, size - got);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) error = errno;
      if (n <= 0) break;
      got += static_cast<size_t>(n);
    }
    return static_cast<ssize_t>(got);
  }
  std::string why() const {
    int code = Z_OK;
    const char* text = gzip ? gzerror(gzip, &code) : "";
    if (error != 0) return fmt::format("cannot read it: {}", std::strerror(error));
    if (code == Z_ERRNO) return fmt::format("cannot read it: {}", std::strerror(errno));
    if (code == Z_BUF_ERROR) return "its gzip stream ends too early";
    if (code == Z_OK || code == Z_STREAM_END) return "";
    return fmt::format("its gzip stream is broken: {}", text);
  }

 private:
  int error = 0;
};

ByteSource::ByteSource() = default;
ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource::~ByteSource() = default;

Result<ByteSource> ByteSource::open(const std::string& path) {
  const int fd = open_input(path, kPipedMax);
  if (fd < 0) {
    return unusable(fmt::format("{}: cannot open it for reading: {}", path, std::strerror(errno)),
                    "checking the spelling of the path");
  }
  ByteSource source;
  source.file_ = std::make_unique<File>();
  File& file = *source.file_;
  file.fd = fd;
  struct stat about = {};
  if (fstat(fd, &about) == 0 && S_ISDIR(about.st_mode)) {
    return unusable(fmt::format("{}: is a folder", path), "the path of a file");
  }
  // zlib reads plain files too, but takes memory for each; what cannot seek is left to it.
  unsigned char magic[2] = {};
  const ssize_t n = pread(fd, magic, 2, 0);
  if (n < 0 || (n == 2 && magic[0] == 0x1f && magic[1] == 0x8b)) {
    file.gzip = gzdopen(fd, "rb");
    if (!file.gzip) return failed(fmt::format("{}: no memory to read it", path));
    gzbuffer(file.gzip, kChunk);
  } else {
    file.chunk = std::clamp<size_t>(static_cast<size_t>(about.st_size) + 1, 256, kChunk);
  }
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
    const size_t more = std::max(file_->chunk, std::min(before, size - before));
    buffer.resize(before + more);
    const auto n = static_cast<size_t>(std::max<ssize_t>(file_->read(&buffer[before], more), 0));
    buffer.resize(before + n);
    if (n == more) continue;
    problem_ = file_->why();
    file_->ended = true;
  }
  memory_ = buffer;
  return memory_.size() >= size;
}

Result<std::string> read_unzipped(const std::string& path, size_t limit) {
  ByteSource source = TRY(ByteSource::open(path));
  if (source.want(limit + 1)) {
    return unusable(fmt::format("{}: larger than the limit of {} bytes", path, limit));
  }
  if (!source.problem().empty()) return unusable(fmt::format("{}: {}", path, source.problem()));
  return std::string(source.visible());
}

}  // namespace tombolo::chakra
