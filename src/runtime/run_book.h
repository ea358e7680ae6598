// What the launcher knows of a run: which iterations all ranks have done, how long they took, what
// the losses were, and what stands in the summary at the end.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "plan/plan.h"
#include "runtime/perform.h"
#include "trace/trace.h"

namespace tombolo::runtime {

// For the progress line; one per iteration, once every rank is through with it.
struct Progress {
  int64_t step = 0;
  int64_t steps = 0;
  std::optional<double> loss;             // nats per token
  std::optional<double> evaluation_loss;  // the newest
  double tokens_per_s = 0;
  Seconds iteration;
  Seconds remaining;  // at the median pace so far
};

// What `tombolo train` answers with.
struct RunSummary {
  int64_t steps = 0;                 // done, those before a resume included
  std::optional<double> first_loss;  // of this run's first iteration
  std::optional<double> final_loss;
  std::optional<double> evaluation_loss;  // after the last step
  double tokens_per_s = 0;                // at the median iteration
  Seconds iteration;                      // median, without the first where there is another
  trace::Trace trace;                     // of all ranks
  std::string trace_path;
  std::string checkpoint;  // folder of the newest; empty: none was taken
};

class RunBook {
 public:
  RunBook(const plan::Plan& plan, int64_t first_iteration);

  // One rank's report; Progress when it was the last rank's.
  std::optional<Progress> add(const IterationReport& report);
  void add_evaluation(double loss) { evaluation_loss_ = loss; }

  int64_t steps_done() const { return steps_done_; }
  RunSummary summary() const;  // without trace and checkpoint

 private:
  struct Open {
    size_t reports = 0;
    SimTime start;
    SimTime end;
    std::optional<double> loss;
  };
  Seconds median() const;

  const int64_t steps_;
  const double tokens_;  // per iteration
  const size_t ranks_;
  int64_t steps_done_;
  std::map<int64_t, Open> open_;  // iterations that some ranks have done
  std::vector<SimDuration> durations_;
  std::optional<double> first_loss_, final_loss_, evaluation_loss_;
};

// Puts the ranks' parts together: header, order, and tokens_per_s for every iteration. Emulated as
// soon as one rank is.
trace::Trace merge_parts(const plan::Plan& plan, std::vector<trace::Trace> parts,
                         const std::string& command, const std::string& version);

double tokens_per_iteration(const plan::Plan& plan);

}  // namespace tombolo::runtime
