// Journal: an append-only file of short records, for a coordinator that may be killed at any byte.
//
//   tombolo-journal 1
//   6c1fd0e6…(32 hexadecimal digits) {"epoch": {"epoch": 1, "step": 0}}
//   …
//
// One record per line, so that a person can read it. The digest before each is over the digest of
// the line before and the record: a line that was changed, dropped or moved is found. append()
// returns once the record is on disk (fsync): what is announced afterwards is durable.
//
// A crash can only tear the end: a last record that is incomplete was never announced, and is cut
// off. Damage with whole records behind it is no crash, and is refused with file and offset.
//
// One coordinator at a time: the file is locked (flock) as long as the object lives, and the lock
// goes with the process that held it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tombolo::control {

inline constexpr size_t kRecordMax = 64 * 1024;  // bytes

// What stands in the bytes of a journal. `whole` is how many of them to keep.
struct JournalText {
  std::vector<std::string> records;
  size_t whole = 0;
  std::string last_digest;
};
// kFailed, naming `path` and the offset, where it is damaged in the middle or no journal at all.
Result<JournalText> read_journal(std::string_view bytes, const std::string& path);

class Journal {
 public:
  // Opens it, or begins a new one, and cuts a torn end off. Unusable where another process has it,
  // where it cannot be written, or where it is damaged.
  static Result<Journal> open(const std::string& path);
  Journal(Journal&& other) noexcept;
  Journal& operator=(Journal&&) = delete;
  ~Journal();

  const std::vector<std::string>& records() const { return records_; }
  // One line of text, at most kRecordMax bytes. On disk when it returns.
  Status append(std::string_view record);
  // Forgets all records.
  Status begin_anew();

 private:
  Journal(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Status load();
  Error error(const char* doing) const;

  std::string path_;
  int fd_ = -1;
  std::string last_digest_;
  std::vector<std::string> records_;
};

// What a coordinator's journal has to remember of a run:
//
//   run     the Plan's digest: whose journal this is
//   begun   an epoch, the step after which its members continue, and the longest lease that they may
//           get. On disk before any member receives it
//   lost    a member of it, and how
//   ended   an epoch: none of its members works any more
//   done    all steps are done, and what is left of them is on every host: ranks may end from here on
//   closed  the run is over, with the reason that the user is told
//
// An epoch that was begun and has not ended may have members that still work. A run that was not
// closed lost its coordinator; one that is done needs no ranks any more.
struct Entry {
  enum class Kind { kRun, kBegun, kLost, kEnded, kDone, kClosed };
  Kind kind = Kind::kRun;
  uint64_t epoch = 0;
  int64_t step = 0;
  SimDuration lease;  // zero: not said
  std::string text;

  bool operator==(const Entry&) const = default;
};

// One line of JSON: {"begun": {"epoch": 3, "step": 40}}. Texts are cut to what a record may hold.
std::string to_record(const Entry& entry);
Result<Entry> parse_record(std::string_view record, const std::string& where);

}  // namespace tombolo::control
