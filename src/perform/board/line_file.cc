#include "perform/board/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/check.h"

namespace tombolo::board {
namespace {

constexpr size_t kLineMax = size_t{64} << 10;

}  // namespace

LineFile::LineFile(std::string path, StepOf step_of, int fd)
    : path_(std::move(path)), step_of_(std::move(step_of)), fd_(fd) {}

LineFile::LineFile(LineFile&& other) noexcept
    : path_(std::move(other.path_)),
      step_of_(std::move(other.step_of_)),
      fd_(std::exchange(other.fd_, -1)),
      last_step_(other.last_step_),
      first_line_(std::move(other.first_line_)) {}

LineFile::~LineFile() {
  if (fd_ >= 0) close(fd_);
}

Error LineFile::error(const char* doing) const {
  return {ErrorCode::kUnusable,
          fmt::format("{}: cannot {}: {}", path_, doing, std::strerror(errno)),
          {},
          "a folder that this user can write to, with space left"};
}

Result<LineFile> LineFile::open(const std::string& path, StepOf step_of) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  LineFile file(path, std::move(step_of), fd);
  if (fd < 0) return fail(file.error("write it"));
  TRY(file.cut(std::nullopt));
  return file;
}

Status LineFile::rewind(int64_t step) { return step > last_step_ ? Status() : cut(step); }

// Drops an unfinished last line, too.
Status LineFile::cut(std::optional<int64_t> from_step) {
  std::ifstream in(path_, std::ios::binary);
  if (!in) return fail(error("read it"));
  last_step_ = 0;
  first_line_.clear();
  off_t keep = 0;
  std::string space(kLineMax, '\0');
  while (in.getline(space.data(), static_cast<std::streamsize>(space.size())) && !in.eof()) {
    const std::string_view line(space.data(), static_cast<size_t>(in.gcount()) - 1);
    const auto step = step_of_(line);
    if (step && from_step && *step >= *from_step) break;
    if (keep == 0) first_line_ = std::string(line);
    if (step) last_step_ = *step;
    keep += static_cast<off_t>(line.size()) + 1;
  }
  if (in.fail() && static_cast<size_t>(in.gcount()) + 1 == space.size()) {
    return unusable(fmt::format("{}: it has a line of more than {} bytes, and holds no steps",
                                path_, kLineMax - 2),
                    "another folder");
  }
  return ftruncate(fd_, keep) == 0 ? Status() : fail(error("shorten it"));
}

Status LineFile::append(std::string_view line, int64_t step) {
  CHECK(line.find('\n') == line.npos && (step == 0 || step > last_step_),
        "a line about step {} after {}", step, last_step_);
  const std::string text = std::string(line) + "\n";
  // In one call, so that concurrent readers see whole lines.
  const ssize_t written = write(fd_, text.data(), text.size());
  if (written >= 0 && static_cast<size_t>(written) < text.size()) errno = ENOSPC;
  if (written != static_cast<ssize_t>(text.size())) return fail(error("write to it"));
  if (first_line_.empty()) first_line_ = line;
  if (step > 0) last_step_ = step;
  return {};
}

}  // namespace tombolo::board
