// What a run decided to change, newest last, and the newest of it in a file next to the journal: for a launcher that
// continues the run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "steer/tune/tuning_decisions.h"

namespace tombolo::run {

template <class Decision>
class DecisionHistory {
 public:
  static constexpr size_t kKept = 1000;

  // `file` empty: nothing is written.
  explicit DecisionHistory(std::string file) : file_(std::move(file)) {}

  // For a launcher that continues a run: takes the newest decision of the previous launcher from its file, if the file
  // can be read and the decision used.
  void take_over(const std::function<bool(const Decision&)>& is_usable) {
    const auto text = read_file(file_);
    const auto value = text ? parse_json(*text, file_) : Result<Value>(fail(text.error()));
    auto newest =
        value ? read_fields<Decision>(*value, file_) : Result<Decision>(fail(value.error()));
    if (newest && is_usable(*newest)) append(std::move(*newest));
  }
  // A failed write (full disk) is ignored: a launcher that continues this run then begins with the decision before this
  // one, or with the Plan's value.
  void keep(Decision decision) {
    append(std::move(decision));
    if (!file_.empty())
      static_cast<void>(write_file(file_, to_json(write_fields(newest_.back()), -1)));
  }
  void begin_epoch() { made_before_ = made_; }
  void remove_file() const {
    std::error_code ec;
    if (!file_.empty()) std::filesystem::remove(file_, ec);
  }

  // The newest kKept, of `made()` in all.
  const std::vector<Decision>& newest() const { return newest_; }
  int64_t made() const { return made_; }
  // Those of this epoch, as far as they are kept.
  std::span<const Decision> of_epoch() const {
    const auto count = static_cast<size_t>(std::min(made_ - made_before_, std::ssize(newest_)));
    return std::span(newest_).last(count);
  }

 private:
  void append(Decision decision) {
    ++made_;
    if (newest_.size() == kKept) newest_.erase(newest_.begin());
    newest_.push_back(std::move(decision));
  }

  std::string file_;
  std::vector<Decision> newest_;
  int64_t made_ = 0;
  int64_t made_before_ = 0;  // this epoch
};

}  // namespace tombolo::run
