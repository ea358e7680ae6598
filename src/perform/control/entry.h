// Entries: what a coordinator's journal (journal.h) has to remember of a run.
//
//   run     the Plan's digest: whose journal this is
//   begun   an epoch, and the step that its members go on after. On disk before anybody hears of it
//   lost    a member of it, and how
//   ended   an epoch: none of its members works any more
//   closed  the run is over, as a person was told
//
// An epoch that was begun and has not ended may have members that still work. A run that was not
// closed lost its coordinator.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tombolo::control {

struct Entry {
  enum class Kind { kRun, kBegun, kLost, kEnded, kClosed };
  Kind kind = Kind::kRun;
  uint64_t epoch = 0;
  int64_t step = 0;
  std::string text;

  bool operator==(const Entry&) const = default;
};

// One line of JSON: {"begun": {"epoch": 3, "step": 40}}. Texts are cut to what a record may hold.
std::string to_record(const Entry& entry);
Result<Entry> parse_record(std::string_view record, const std::string& where);

}  // namespace tombolo::control
