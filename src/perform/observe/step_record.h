// The steps that all ranks have done, and their losses, in a file next to the journal: a line for
// each, written when the last rank has reported it.
//
//   {"step":3,"loss":5.4231}
//
// For the next launcher of a run whose launcher was killed: it needs the losses of every step for the
// Trace, and tells ranks up to which step they need not report again. A step that is repeated from a
// checkpoint before it has two lines; the later one counts. Lines survive the process but not a power
// cut, so each costs one write into memory.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"

namespace tombolo::observe {

class StepRecord {
 public:
  // In memory alone.
  StepRecord() = default;
  // `goes_on`: keeps what a previous launcher wrote there, except for a line that it did not finish;
  // otherwise removes that.
  static Result<StepRecord> open(const std::string& path, bool goes_on);

  // Fails if it cannot be written; the step is added in memory all the same.
  Status add(int64_t step, std::optional<double> loss);
  // The run has ended: no launcher continues it.
  void remove();

  int64_t last() const { return last_; }  // the step that was added last; 0: none
  const std::map<int64_t, double>& losses() const { return losses_; }  // by step
  std::optional<double> first_loss() const {
    return losses_.empty() ? std::nullopt : std::optional(losses_.begin()->second);
  }

 private:
  std::string path_;
  std::ofstream file_;
  int64_t last_ = 0;
  std::map<int64_t, double> losses_;
};

}  // namespace tombolo::observe
