// Reports of the ranks about steps, on the launcher's side: of this epoch's steps, and of earlier ones that were not
// recorded when a launcher was lost. Every step is recorded once, after people and dashboards were told.
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
  // The first step of this epoch is known. `goes_on`: ranks may have to report earlier steps, too.
  void begin(int64_t first_iteration, bool goes_on);

  // Whether it is of a step before this epoch's first, which the rank had reported to a previous launcher.
  bool is_past(const stage::IterationReport& report) const {
    return report.iteration < first_iteration_;
  }
  // What a rank reported to a previous launcher may have been lost with it. The step that was recorded last is told
  // again, because its row on a dashboard waits for the evaluation that follows the step.
  void take_past(int32_t rank, const stage::IterationReport& report);
  // All are ready. Records the past steps that are left, without reports that were lost with a rank.
  void end_past();

  // The step, once all ranks have reported it. Fails on an impossible report.
  Result<std::optional<observe::Progress>> add(int32_t rank, const stage::IterationReport& report);
  void add_evaluation(int32_t rank, const stage::Evaluation& evaluation);
  // Tells, then records: what is recorded is not told again.
  void record(const observe::Progress& progress);
  // The step up to which ranks need not report again; nullopt if it is not yet time to tell them, or if steps cannot be
  // recorded.
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
