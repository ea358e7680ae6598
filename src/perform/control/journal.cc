#include "perform/control/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/hash.h"

namespace tombolo::control {
namespace {

constexpr std::string_view kFirstLine = "tombolo-journal 1\n";
constexpr size_t kDigest = 32;  // hexadecimal digits
constexpr int64_t kJournalMax = int64_t{1} << 30;
constexpr const char* kWithoutJournal =
    "removing the file: the run then continues from its newest checkpoint with --resume";

std::string digest_after(std::string_view last, std::string_view record) {
  return digest(std::string(last) + std::string(record));
}

// The line that begins at `at`, without its line feed; nothing where the file ends before that.
std::optional<std::string_view> line_at(std::string_view bytes, size_t at) {
  const size_t end = bytes.find('\n', at);
  if (end == std::string_view::npos) return std::nullopt;
  return bytes.substr(at, end - at);
}

bool follows(std::string_view last_digest, std::string_view line) {
  if (line.size() <= kDigest + 1 || line[kDigest] != ' ') return false;
  return line.substr(0, kDigest) == digest_after(last_digest, line.substr(kDigest + 1));
}

// Two lines of which the second was written after the first. Of the first one at `at`, which is
// damaged, either its digest or its record may still be whole.
bool whole_records_after(std::string_view bytes, size_t at, std::string_view last_digest) {
  std::optional<std::string_view> line = line_at(bytes, at);
  if (line && line->size() > kDigest) {
    const auto next = line_at(bytes, at + line->size() + 1);
    if (next && follows(digest_after(last_digest, line->substr(kDigest + 1)), *next)) return true;
  }
  while (line) {
    at += line->size() + 1;
    const auto next = line_at(bytes, at);
    if (next && line->size() > kDigest && follows(line->substr(0, kDigest), *next)) return true;
    line = next;
  }
  return false;
}

}  // namespace

Result<JournalText> read_journal(std::string_view bytes, const std::string& path) {
  JournalText out;
  if (!bytes.starts_with(kFirstLine)) {
    if (kFirstLine.starts_with(bytes)) return out;  // torn while it was begun
    return failed(fmt::format("{}: this is no journal of this version", path),
                  std::string("the version of Tombolo that wrote it, or ") + kWithoutJournal);
  }
  out.whole = kFirstLine.size();
  while (const auto line = line_at(bytes, out.whole)) {
    if (!follows(out.last_digest, *line)) {
      // A line that is the last may be torn; so may one that was damaged behind it.
      if (!whole_records_after(bytes, out.whole, out.last_digest)) break;
      return failed(
          fmt::format("{}: damaged at byte {}, with whole records behind it", path, out.whole),
          kWithoutJournal);
    }
    out.last_digest = line->substr(0, kDigest);
    out.records.emplace_back(line->substr(kDigest + 1));
    out.whole += line->size() + 1;
  }
  return out;
}

Journal::Journal(Journal&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      last_digest_(std::move(other.last_digest_)),
      records_(std::move(other.records_)) {}

Journal::~Journal() {
  if (fd_ >= 0) close(fd_);
}

Error Journal::error(const char* doing) const {
  return {ErrorCode::kUnusable,
          fmt::format("{}: cannot {} it: {}", path_, doing, std::strerror(errno)),
          {},
          "another folder for the output, or freeing space"};
}

Result<Journal> Journal::open(const std::string& path) {
  Journal journal(path, ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (journal.fd_ < 0) return fail(journal.error("open"));
  if (flock(journal.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail(journal.error("lock"));
    return unusable(fmt::format("{}: another run works in this folder", path),
                    "another --out, or ending that run");
  }
  TRY(journal.load());
  return journal;
}

Status Journal::load() {
  const std::string bytes = TRY(read_file(path_, kJournalMax));
  JournalText text = TRY(read_journal(bytes, path_));
  if (text.whole == 0) return begin_anew();
  if (text.whole < bytes.size() && ftruncate(fd_, static_cast<off_t>(text.whole)) != 0) {
    return fail(error("shorten"));
  }
  if (lseek(fd_, 0, SEEK_END) < 0) return fail(error("seek in"));
  records_ = std::move(text.records);
  last_digest_ = std::move(text.last_digest);
  return {};
}

Status Journal::begin_anew() {
  records_.clear();
  last_digest_.clear();
  if (ftruncate(fd_, 0) != 0 || lseek(fd_, 0, SEEK_SET) < 0) return fail(error("shorten"));
  const auto written = write(fd_, kFirstLine.data(), kFirstLine.size());
  if (written != static_cast<ssize_t>(kFirstLine.size()) || fdatasync(fd_) != 0) {
    return fail(error("write"));
  }
  // The name itself must survive a power cut too.
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  return {};
}

Status Journal::append(std::string_view record) {
  CHECK(fd_ >= 0, "a record for a journal that was moved away");
  CHECK(!record.empty() && record.size() <= kRecordMax && record.find('\n') == record.npos,
        "a record of {} bytes", record.size());
  const std::string next = digest_after(last_digest_, record);
  const std::string line = next + " " + std::string(record) + "\n";
  const off_t before = lseek(fd_, 0, SEEK_CUR);
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = write(fd_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const Error why = error("write");
      // Half a record in the middle would be damage once another stands behind it.
      static_cast<void>(ftruncate(fd_, before) == 0 && lseek(fd_, before, SEEK_SET) >= 0);
      return fail(why);
    }
    done += static_cast<size_t>(n);
  }
  if (fdatasync(fd_) != 0) return fail(error("write to disk"));
  last_digest_ = next;
  records_.emplace_back(record);
  return {};
}

}  // namespace tombolo::control
