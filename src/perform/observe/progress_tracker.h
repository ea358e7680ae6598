// What the launcher knows of a run: which iterations all ranks have done, how long they took, what the losses were,
// whether replicas still agree, and what the summary at the end contains.
//
// If a pipeline has replicas, each reports the loss of its own microbatches; the loss of the iteration is the mean over
// all samples, summed in the order of replicas, so that it does not depend on the order of arrival.
//
// If gradients are exchanged while the next iteration begins, iterations overlap. The duration of an iteration is then
// measured from the end of the previous one to its own end: over many iterations that is the period from start to
// start.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "perform/stage/machine_load.h"
#include "perform/stage/perform.h"
#include "spec/plan/plan.h"
#include "spec/trace/trace.h"
#include "steer/tune/tuning_decisions.h"

namespace tombolo::observe {

// For the progress line; one per iteration, once every rank has finished it.
struct Progress {
  int64_t step = 0;
  int64_t steps = 0;
  std::optional<double> loss;             // nats per token
  std::optional<double> evaluation_loss;  // the newest, after evaluated_step
  int64_t evaluated_step = 0;
  std::optional<double> gradient_norm;  // before it was clipped
  bool update_skipped = false;          // because it was no number
  std::optional<double> tokens_per_s;   // not of a Plan without a model
  Seconds iteration;
  Seconds remaining;  // at the median pace so far
  // Share of the iteration that a rank waited for other datacenters: the mean over all ranks. Waits for messages
  // include the time in which their sender still computed.
  double wan_wait_share = 0;
};

// The result of `tombolo train`.
struct RunSummary {
  int64_t steps = 0;                 // done, those before a resume included
  std::optional<double> first_loss;  // of this run's first iteration
  std::optional<double> final_loss;
  std::optional<double> evaluation_loss;  // after the last step
  std::optional<double> tokens_per_s;     // at the median iteration
  Seconds iteration;                      // median, without the warm-up (trace::warmup_of)
  trace::Trace trace;                     // of all ranks
  std::string trace_path;
  std::string checkpoint;  // folder of the newest; empty: none was taken
  int restarts = 0;        // after workers that were lost
  stage::MachineLoad machine;
  std::vector<tune::DensityDecision> density_decisions = {};  // the newest
  int64_t density_changed = 0;  // in all, of this launcher and the newest of the one before
  std::vector<tune::BatchDecision> batch_decisions = {};  // the newest
  int64_t batch_changed = 0;  // in all, of this launcher and the newest of the one before
};

class ProgressTracker {
 public:
  ProgressTracker(const plan::Plan& plan, int64_t first_iteration);

  // Adds one rank's report; returns Progress when it was the last rank's. A repeated report counts once. Fails, naming
  // two ranks, if replicas of a stage hold different weights; if a stage computed another number of microbatches than
  // the batch has; and beyond the last step.
  Result<std::optional<Progress>> add(int32_t rank, const stage::IterationReport& report);
  void add_evaluation(int32_t rank, const stage::Evaluation& evaluation);
  // Progress of the iterations that some ranks have not reported, and will not, as far as their loss is known.
  std::vector<Progress> without_the_rest();

  int64_t steps_done() const { return steps_done_; }
  // The median, without the warm-up (trace::warmup_of); nothing before there is one.
  std::optional<Seconds> usual_iteration() const { return usual_; }
  RunSummary summary() const;  // without trace, checkpoint and machine

 private:
  struct Open {
    std::set<int32_t> reported;
    SimTime start;
    SimTime end;
    SimDuration wan_wait = {};  // of all ranks
    std::optional<double> gradient_norm;
    bool update_skipped = false;
    std::map<int32_t, double> losses;  // by rank, hence by replica
    std::map<int32_t, int64_t>
        microbatches;                        // the same, where the division of the batch may change
    std::map<int32_t, std::string> digests;  // by rank
  };
  void check_rank(int32_t rank) const;
  Progress complete(int64_t iteration, const Open& open);
  Status compare_replicas(int64_t iteration, const Open& open) const;
  Status check_batch(int64_t iteration, const Open& open) const;
  SimDuration duration_of(const Open& open) const;
  Seconds median() const;

  const plan::Plan& plan_;  // the launcher's
  const int64_t steps_;
  const std::optional<double> tokens_;  // per iteration
  const size_t ranks_;
  int64_t steps_done_;
  std::map<int64_t, Open> open_;  // iterations that some ranks have done
  std::vector<SimDuration> durations_;
  std::optional<Seconds> usual_;     // of them
  std::optional<SimTime> last_end_;  // of the iteration before
  std::optional<double> first_loss_, final_loss_, evaluation_loss_;
  int64_t evaluated_step_ = 0;
  std::map<int32_t, stage::Evaluation> evaluations_;  // of that step, by rank
};

// Merges the ranks' parts: adds the header, orders them, and adds tokens_per_s for every iteration and, if there are
// replicas, "loss" and "evaluation_loss" as the mean of theirs. The result counts as emulated if any rank is.
trace::Trace merge_parts(const plan::Plan& plan, std::vector<trace::Trace> parts,
                         const std::string& command, const std::string& version);

// The summary of a run whose steps are all done, from its merged Trace: for a launcher that did not receive the reports
// itself. Without first_loss, trace, checkpoint and machine.
RunSummary summary_of_done(const plan::Plan& plan, const trace::Trace& trace);

// The provenance of what the ranks of this Plan do: emulated if any of them is.
trace::Provenance provenance_of(const plan::Plan& plan);

// None without a model.
std::optional<double> tokens_per_iteration(const plan::Plan& plan);

}  // namespace tombolo::observe
