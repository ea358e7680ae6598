// The density of a run that may change it, on the launcher's side: what ranks report of their exchange goes to
// the controller (steer/tune/line_reports.h, rate_controller.h), and what that decides to ranks, people and the next epoch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "perform/join/control_message.h"
#include "perform/observe/progress_tracker.h"
#include "perform/stage/iteration_report.h"
#include "spec/plan/plan.h"
#include "spec/trace/trace.h"
#include "steer/tune/decision_records.h"
#include "steer/tune/line_reports.h"
#include "steer/tune/rate_controller.h"

namespace tombolo::run {

class DensityControl {
 public:
  // The Plan outlives it. `file`: keeps the newest change, for a launcher that continues the run (`goes_on`);
  // empty: none does. Where it says nothing of use the Plan's density is in use, and the line soon tells.
  DensityControl(const plan::Plan& plan, std::string file, bool goes_on);

  bool is_on() const { return plan_->exchange && plan_->exchange->density_changes() && apart_; }
  // An epoch begins. What all ranks are told before its first iteration: those that survived the epoch before
  // may have heard of other densities for the same iterations.
  std::optional<join::DensityOrder> begin(int64_t first_iteration);
  // Of each rank in each iteration. A decision is in use and kept when it is returned.
  std::optional<observe::DensityChange> add(int32_t rank, const stage::IterationReport& report);
  // The newest kChangesKept, of `changed()` in all.
  const std::vector<observe::DensityChange>& changes() const { return changes_; }
  int64_t changed() const { return changed_; }
  void remove_file() const;
  // To the records of this epoch's ranks, what was decided and believed in it (steer/tune/decision_records.h).
  void add_records(std::vector<trace::Record>& records) const;

  static constexpr size_t kChangesKept = 1000;

 private:
  void take_over();
  void keep(observe::DensityChange change);
  const plan::Plan* plan_;
  bool apart_;
  std::string file_;
  double density_;
  std::optional<tune::RateController> controller_;
  std::optional<tune::LineReports> reports_;
  std::vector<observe::DensityChange> changes_;
  int64_t changed_ = 0;
  int64_t changed_before_ = 0;  // this epoch
  int64_t ahead_ = 0;           // of the controller
  std::vector<tune::LineBelief>
      beliefs_;  // of this epoch: one for each iteration, as the Trace has more
};

// "density 0.01 -> 0.015 from iteration 12 on: ..."
std::string to_line(const observe::DensityChange& change);

}  // namespace tombolo::run
