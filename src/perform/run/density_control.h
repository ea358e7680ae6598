// Changes the density during a run, on the launcher's side. What ranks report of their exchange goes to the controller
// (steer/tune/line_reports.h, rate_controller.h); its decisions go to the ranks, to people and to the next epoch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "perform/join/control_message.h"
#include "perform/run/decision_history.h"
#include "perform/stage/iteration_report.h"
#include "spec/plan/plan.h"
#include "spec/trace/trace.h"
#include "steer/tune/decision_records.h"
#include "steer/tune/line_reports.h"
#include "steer/tune/rate_controller.h"
#include "steer/tune/tuning_decisions.h"

namespace tombolo::run {

class DensityControl {
 public:
  // The Plan outlives it. `file` keeps the newest change, for a launcher that continues the run (`goes_on`); empty: the
  // run cannot be continued. If the file has no usable decision the Plan's density is used, until measurements of the
  // link change it.
  DensityControl(const plan::Plan& plan, std::string file, bool goes_on);

  bool is_on() const { return plan_->exchange && plan_->exchange->density_changes() && apart_; }
  // An epoch begins. Returns the order to send to all ranks before its first iteration: survivors of the epoch before
  // may have received other densities for the same iterations.
  std::optional<join::DensityOrder> begin(int64_t first_iteration);
  // Call for each rank in each iteration. A decision that is returned is already in use and kept.
  std::optional<tune::DensityDecision> add(int32_t rank, const stage::IterationReport& report);
  const DecisionHistory<tune::DensityDecision>& history() const { return history_; }
  // Adds to the records of this epoch's ranks the decisions and beliefs of this epoch (steer/tune/decision_records.h).
  void add_records(std::vector<trace::Record>& records) const;

 private:
  const plan::Plan* plan_;
  bool apart_;
  DecisionHistory<tune::DensityDecision> history_;
  double density_;
  std::optional<tune::RateController> controller_;
  std::optional<tune::LineReports> reports_;
  int64_t ahead_ = 0;  // of the controller
  // Of this epoch: one for each iteration, as the Trace has more.
  std::vector<tune::LineBelief> beliefs_;
};

}  // namespace tombolo::run
