// A run that changes its density while it trains, in virtual time: what ranks would report of each iteration
// goes to the controller of a run (steer/tune), and what that decides into the sizes of the updates to come.
//
//   report     A rank reports an iteration when it has computed the last of its passes: what it waited for
//              updates since the report before, and the bytes that came from other datacenters meanwhile,
//              from their first to their last, as perform/stage does.
//   decision   The launcher decides when the last rank's report of an iteration is made, and ranks obey from
//              the iteration that the decision names. On their way both take no time here.
//
// Differs from a run: what an update holds is expected (schedule::expected_update_bytes), bytes have no
// protocol around them, and nothing disturbs the machines. Cost: O(1) per node.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "predict/sim/interpret.h"
#include "spec/plan/plan.h"
#include "spec/schedule/schedule.h"
#include "steer/tune/decision_records.h"
#include "steer/tune/line_reports.h"
#include "steer/tune/rate_controller.h"

namespace tombolo::sim {

// Iterations from this one on have these numbers of microbatches.
struct DividedPlan {
  int64_t first_iteration = 1;
  plan::Plan plan;
  schedule::Schedule schedule;
};

class DensitySteering final : public Watcher {
 public:
  // `divided`: in the order of their iterations, from the first on. `graphs`: those of all iterations (repeat). All
  // outlive it.
  DensitySteering(std::span<const DividedPlan> divided, int64_t iterations, graph::Graphs& graphs);

  void finished(const graph::Graph& graph, size_t node, const Span& span) override;

  const std::vector<tune::DensityDecision>& decisions() const { return decisions_; }
  const std::vector<tune::LineBelief>& beliefs() const { return beliefs_; }
  const std::vector<double>& densities() const { return densities_; }  // by iteration, from 1
  SimTime reported_at(int32_t rank, int64_t iteration) const {
    return reports_at_[static_cast<size_t>(rank)][static_cast<size_t>(iteration - 1)];
  }

 private:
  // Since its last report.
  struct Rank {
    std::vector<size_t> begins;  // of each iteration, its first node; and behind the last one
    std::vector<size_t> passes;  // of each, what a rank computes before it reports
    size_t left = 0;             // of the passes, in this iteration
    std::vector<SimTime> ends;   // of all nodes so far
    SimDuration waited;
    int64_t bytes = 0;
    SimDuration in_flight;
    SimTime until;  // of what came
  };

  bool is_pass(const graph::Node& node) const;
  void computed(const graph::Graph& graph, size_t node, const Span& span);
  void arrived(const graph::Graph& graph, const graph::Node& send, const Span& span);
  void report(int32_t rank, int64_t iteration, SimTime now);
  // Of the updates of an iteration that has not begun.
  void set_density(int64_t iteration, double density);

  const std::span<const DividedPlan> divided_;
  const plan::Plan& plan_;  // of the first iteration
  const int64_t iterations_;
  graph::Graphs& graphs_;
  tune::LineReports reports_;
  tune::RateController controller_;
  const int64_t ahead_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<SimTime>> reports_at_;                  // by rank and iteration
  std::map<std::pair<int32_t, int32_t>, SimDuration> latencies_;  // between datacenters
  std::map<std::tuple<double, int64_t>, graph::Graphs>
      by_density_;  // and by where a division begins; one iteration
  std::vector<double> densities_;
  std::vector<tune::DensityDecision> decisions_;
  std::vector<tune::LineBelief> beliefs_;
};

}  // namespace tombolo::sim
