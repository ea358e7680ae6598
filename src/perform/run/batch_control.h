// The numbers of microbatches of a run that may change them, on the launcher's side: what ranks report goes to the
// controller (steer/tune/batch_controller.h), and what that proposes to all ranks, of which each must be in time.
//
//   kSteady   no order is open. -> kAsked when the controller proposes another division
//   kAsked    every rank has been asked. -> kSteady when all have answered that they are in time, and the order
//             holds; or when the first one answers that it is not, or cannot use it, and nothing changes
//
// A rank that cannot use a division could not in the next window either: this epoch then keeps the one in use.
//
// A rank that is in time does not begin the iteration before it hears the decision, so an iteration has one division,
// whatever is late, lost or repeated on the way. An epoch that ends meanwhile takes the order with it: the next one
// begins with the Plan as it is divided then, which every rank gets in its start message.
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
  // Of each rank in each iteration. What all ranks are to be asked.
  std::optional<join::BatchOrder> add(int32_t rank, const stage::IterationReport& report);
  struct Decided {
    join::BatchVerdict verdict;                   // to be told all ranks
    std::optional<tune::BatchDecision> decision;  // where it holds; it has been kept then
    std::string refused = {};                     // for people: a rank cannot use it, and why
  };
  // Nothing: others have not answered yet, or it was decided before. Fails where nothing was asked.
  Result<std::optional<Decided>> add(int32_t rank, const join::BatchAnswer& answer);

  const DecisionHistory<tune::BatchDecision>& history() const { return history_; }
  // To the records of this epoch's ranks, why they changed (steer/tune/decision_records.h).
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
