// Changes the numbers of microbatches during a run, on the launcher's side. Reports of the ranks go to the controller
// (steer/tune/batch_controller.h). Its proposals go to all ranks, and one holds only if every rank is in time for it.
//
//   kSteady   no order is open. -> kAsked when the controller proposes another division
//   kAsked    every rank has been asked. -> kSteady when all have answered that they are in time, and the order
//             holds; or when the first one answers that it is not, or cannot use it, and nothing changes
//
// A rank that cannot use a division could not in the next window either: this epoch then keeps the one in use.
//
// A rank that is in time does not begin the iteration before it receives the decision, so all ranks divide an iteration
// in the same way, whatever is late, lost or repeated in transit. If the epoch ends meanwhile the order is dropped: the
// next epoch begins with the Plan as divided by then, which every rank gets in its start message.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "perform/join/control_message.h"
#include "perform/run/decision_history.h"
#include "perform/stage/iteration_report.h"
#include "spec/plan/plan.h"
#include "spec/trace/trace.h"
#include "steer/tune/batch_controller.h"
#include "steer/tune/tuning_decisions.h"

namespace tombolo::run {

class BatchControl {
 public:
  // The Plan outlives it. `file`: as of DensityControl. `window`: of the controller, iterations.
  BatchControl(const plan::Plan& plan, std::string file, bool goes_on,
               int64_t window = tune::BatchController::Options{}.window);

  bool is_on() const { return plan_->batch_changes(); }
  // An epoch begins, with this Plan: that of the run, as its batch is divided now.
  plan::Plan begin();
  // Call for each rank in each iteration. Returns the order to send to all ranks, if there is one.
  std::optional<join::BatchOrder> add(int32_t rank, const stage::IterationReport& report);
  struct Decided {
    join::BatchVerdict verdict;                   // to be sent to all ranks
    std::optional<tune::BatchDecision> decision;  // set if it holds; then it is already kept
    std::string refused = {};                     // for people: a rank cannot use it, and why
  };
  // nullopt: other ranks have not answered yet, or it is already decided. Fails if nothing was asked.
  Result<std::optional<Decided>> add(int32_t rank, const join::BatchAnswer& answer);

  const DecisionHistory<tune::BatchDecision>& history() const { return history_; }
  // Adds to the records of this epoch's ranks why they changed (steer/tune/decision_records.h).
  void add_records(std::vector<trace::Record>& records) const;

 private:
  enum class State { kSteady, kAsked };

  const plan::Plan* plan_;
  DecisionHistory<tune::BatchDecision> history_;
  const int64_t window_;
  std::vector<int64_t> microbatches_;
  std::optional<tune::BatchController> controller_;  // of this epoch
  State state_ = State::kSteady;
  int64_t order_ = 0;                            // the newest of this epoch
  std::optional<tune::BatchDecision> proposal_;  // that was asked
  std::set<int32_t> in_time_;                    // ranks that answered so
};

}  // namespace tombolo::run
