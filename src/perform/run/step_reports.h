// What ranks report of steps, on the launcher's side: of the steps of this epoch, and of those before it that
// were not recorded when a launcher was lost. Every step is recorded once, for people and dashboards first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/time.h"
#include "perform/observe/progress_tracker.h"
#include "perform/observe/step_record.h"
#include "perform/stage/iteration_report.h"
#include "spec/plan/plan.h"

namespace tombolo::run {

class StepReports {
 public:
  struct Callbacks {
    std::function<void(const observe::Progress&)> on_progress;
    std::function<void(const std::string&)> on_note;
  };
  // Plan and record outlive it.
  StepReports(const plan::Plan& plan, observe::StepRecord& record, int64_t first_iteration,
              Callbacks callbacks);
  // It is known with what all begin. `goes_on`: ranks may have to tell of steps before.
  void begin(int64_t first_iteration, bool goes_on);

  // Of a step before the first one, from a rank that said it to a launcher before.
  bool is_past(const stage::IterationReport& report) const {
    return report.iteration < first_iteration_;
  }
  // What a rank said to a launcher before may have been lost with it. The step that was recorded last is told
  // again, for a dashboard's row waits for the evaluation behind its step.
  void take_past(int32_t rank, const stage::IterationReport& report);
  // All are ready: a rank that was lost with what it had to report keeps nothing from the others.
  void end_past();

  // The step, once all ranks have reported it. An error is a report that cannot be.
  Result<std::optional<observe::Progress>> add(int32_t rank, const stage::IterationReport& report);
  void add_evaluation(int32_t rank, const stage::Evaluation& evaluation);
  // Tells, then records: what is recorded is not told again.
  void record(const observe::Progress& progress);
  // Up to which step ranks need not report again, when it is time to tell them.
  std::optional<int64_t> recorded_to_tell(SimTime now);

  const observe::ProgressTracker& tracker() const { return *tracker_; }

 private:
  const plan::Plan& plan_;
  observe::StepRecord& record_;
  const Callbacks callbacks_;
  int64_t first_iteration_;
  std::unique_ptr<observe::ProgressTracker> tracker_;
  std::unique_ptr<observe::ProgressTracker> past_;  // from the start message to the first step
  bool records_ = true;                             // nothing was wrong with the file
  SimTime told_at_;
};

}  // namespace tombolo::run
