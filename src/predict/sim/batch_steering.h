// A run that changes the division of its batch while it trains, in virtual time: what ranks would report of each
// iteration goes to the controller of a run (steer/tune/batch_controller.h).
//
// A rank reports an iteration when it has computed the last of its passes. The launcher decides when the last
// rank's report is made, and all ranks agree: on their way reports, questions and answers take no time here.
//
// Other numbers of microbatches are another graph, so what is played cannot be changed while it is. It is played
// again instead, from the beginning, with the division that was decided, until nothing more is: what is decided
// does not depend on iterations behind it (simulate.cc). Cost: O(1) per node; as many plays as there are
// decisions.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "predict/sim/interpret.h"
#include "spec/plan/plan.h"
#include "steer/tune/batch_controller.h"

namespace tombolo::sim {

class BatchSteering final : public Watcher {
 public:
  // Graphs of all iterations, which outlive it.
  BatchSteering(const plan::Plan& plan, const graph::Graphs& graphs, int64_t iterations);

  void finished(const graph::Graph& graph, size_t node, const Span& span) override;

  // Of iterations that are played.
  const std::vector<tune::BatchDecision>& decisions() const { return decisions_; }

 private:
  // A rank's iteration.
  struct Open {
    size_t left = 0;  // passes that are not over
    int64_t microbatches = 0;
    SimDuration computing, waited;  // waited: for gradients, between the parts of a pass
    std::optional<SimTime> start;
    std::optional<action::Action> last;  // and when it, or its last part so far, ended
    SimTime last_end;
  };
  const plan::Plan& plan_;
  const int64_t iterations_;
  tune::BatchController controller_;
  std::map<std::pair<int32_t, int32_t>, Open> open_;  // by rank and iteration
  std::vector<tune::BatchDecision> decisions_;
};

}  // namespace tombolo::sim
