// The density of a run that may change it, on the launcher's side: what ranks report of their exchange goes to
// the controller (steer/tune/rate_controller.h), and what that decides to ranks, people and the next epoch.
//
// Of an iteration counts the stage whose line is busy for longest. A replica that waits while another of its
// stage does not waits for a computation, and not for a line.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "perform/join/control_message.h"
#include "perform/observe/progress_tracker.h"
#include "perform/stage/iteration_report.h"
#include "spec/plan/plan.h"
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

  static constexpr size_t kChangesKept = 1000;

 private:
  void take_over();
  void keep(observe::DensityChange change);
  // A stage in an iteration, over its replicas.
  struct OfStage {
    SimDuration computing;              // the longest
    std::optional<SimDuration> waited;  // the shortest
    int64_t bytes = 0;                  // of the one to which some were coming for longest
    SimDuration in_flight;
  };
  struct Open {
    std::set<int32_t> reported;
    std::map<int32_t, OfStage> stages;
  };
  // With bytes as the Plan counts them, of an emulated run too.
  tune::LineReport line_of(int64_t iteration, const Open& open) const;

  const plan::Plan* plan_;
  bool apart_;
  std::string file_;
  double density_;
  std::optional<tune::RateController> controller_;
  std::map<int64_t, Open> open_;
  int64_t closed_ = 0;  // the last iteration of which all reports came
  std::vector<observe::DensityChange> changes_;
  int64_t changed_ = 0;
};

// "density 0.01 -> 0.015 from iteration 12 on: ..."
std::string to_line(const observe::DensityChange& change);

}  // namespace tombolo::run
