// The steps that all ranks have done, and their losses, in a file beside the journal: a line for each,
// written when the last rank has reported it.
//
//   {"step":3,"loss":5.4231}
//
// For the next launcher of a run whose launcher was killed: the Trace of a run has the losses of every
// step, and ranks are told up to which step they need not report again. A step that is done again,
// from a checkpoint before it, stands there twice; the later line counts. Lines survive the process,
// and not a power cut: what they cost is a write into memory for each step.
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
  // `goes_on`: with what a launcher before wrote there, but for a line that it did not finish;
  // otherwise that is gone.
  static Result<StepRecord> open(const std::string& path, bool goes_on);

  // Fails where it cannot be written; it counts all the same.
  Status add(int64_t step, std::optional<double> loss);
  // The run is over: no launcher continues it.
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
