// How many microbatches each pipeline computes, while training runs and speeds change (Lim et al., StellaTrain,
// SIGCOMM 2024, section 4: the batch of each worker by what it reported). The global batch stays.
//
// Ranks report of each iteration what they computed and how long their passes took. Of a pipeline with m
// microbatches, over the reports of a window, medians:
//
//   c[s]    what a microbatch computes at position s
//   first = sum of c[s] + transfers there and back
//   next  = the larger of max c[s] and (time of its passes at position 0 - first) / (m - 1)
//
// The second part of `next` counts what stages wait for one another. divide_by_pace (batch_division.h) makes of
// these the division by which all end at about the same time, no pipeline with fewer than it has positions. It is
// proposed if the longest pipeline then ends sooner by at least a twentieth, and a whole window has been reported
// since the change before: so speeds that do not change leave the division alone, and one slow iteration does as well.
//
// All ranks must use the same numbers for an iteration: a decision is a proposal until settle() says what became of
// it (perform/run/batch_control.h). Cost: O(pipelines) a report of the last rank, times a hundred.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "spec/plan/plan.h"
#include "steer/tune/batch_division.h"
#include "steer/tune/tuning_decisions.h"

namespace tombolo::tune {

// Of a rank in an iteration.
struct PassTimes {
  int64_t microbatches = 1;  // of its pipeline
  Seconds computing;         // in forward and backward passes, all microbatches together
  // From the start of the first of them to the end of the last, less waits for gradients.
  Seconds passes;
};

class BatchController {
 public:
  struct Options {
    std::vector<int64_t> microbatches;  // in use when it begins, of each pipeline
    std::vector<Seconds> transfers;     // of each: a microbatch's messages, there and back
    int32_t positions = 1;              // rank = position x pipelines + pipeline
    double gain_least = 0.05;           // of the longest pipeline's time
    int64_t window = 5;                 // iterations of which the median counts
    int64_t warmup = 1;                 // iterations at the beginning that do not count
    int64_t ahead = 3;  // a decision takes effect this many iterations after the newest report
  };
  explicit BatchController(Options options);

  // Call once for each rank and iteration, in any order. No decision until the previous one is settled.
  std::optional<BatchDecision> add(int32_t rank, int64_t iteration, const PassTimes& report);
  // `holds`: the last decision is in use from its first iteration on. Else it came too late for some rank, and the
  // next one is made for twice as many iterations ahead.
  void settle(bool holds);

  const std::vector<int64_t>& microbatches() const { return microbatches_; }

 private:
  struct Open {
    std::vector<std::optional<PassTimes>> reports;  // by rank
    size_t missing = 0;
  };
  // Newest last; of a pipeline.
  struct Window {
    std::deque<Seconds> first, next;
  };
  size_t pipelines() const { return microbatches_.size(); }
  void measure(const Open& open);
  std::vector<Pace> paces() const;
  std::string reason(const std::vector<Pace>& paces, Seconds before, Seconds after) const;

  const Options options_;
  int64_t all_ = 0;  // microbatches
  std::vector<int64_t> microbatches_;
  std::map<int64_t, Open> open_;
  int64_t closed_ = 0;    // the last iteration of which all reports came
  int64_t newest_ = 0;    // that any rank reported
  int64_t left_out_ = 0;  // of the warm-up
  int64_t settled_ = 0;   // reports from this iteration on are of `microbatches_`
  int64_t ahead_;
  std::vector<Window> windows_;
  std::vector<Pace> known_;  // when the division was last chosen, or first measured
  std::optional<BatchDecision> proposal_;
};

// Of a Plan whose batch changes, with these numbers in use.
BatchController::Options batch_options(const plan::Plan& plan, std::vector<int64_t> microbatches);

}  // namespace tombolo::tune
