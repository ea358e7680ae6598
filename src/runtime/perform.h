// One rank performs its part of a Plan: the schedule's actions in order, for every iteration, with
// real bytes, behind Kernels and Messenger.
//
//   SEND       hands the result over and goes on
//   RECV       waits for the message, and draws the link's interval from the sender's stamp
//   F B R U    Kernels
//   E          held-out data passes through the stages, every run.evaluate_every steps and at the
//   end C          a shard, every checkpoint.every steps and at the end
//
// Intervals of a link are written by its receiver, which alone knows both ends. Evaluation and
// checkpoints belong to iteration 0.
#pragma once

#include <functional>
#include <optional>

#include "base/clock.h"
#include "plan/plan.h"
#include "runtime/checkpoint.h"
#include "runtime/kernels.h"
#include "runtime/messenger.h"
#include "schedule/schedule.h"
#include "trace/trace.h"

namespace tombolo::runtime {

// What a rank did in one iteration. Times since the run's origin.
struct IterationReport {
  int64_t iteration = 0;
  SimTime start;               // of its first computation
  SimTime end;                 // of its update
  std::optional<double> loss;  // on the last stage
};

struct PerformOptions {
  int32_t rank = 0;
  int64_t first_iteration = 1;
  SimTime origin;                     // on the clock: time 0 of the Trace
  int64_t intervals_max = 1'000'000;  // about 80 bytes each; later iterations are not drawn
};

// Called on the performing thread; a failure ends the run.
struct Hooks {
  std::function<Status(const IterationReport&)> iteration;
  std::function<Status(int64_t step, const Shard& shard)> shard;
  std::function<Status(int64_t step, double loss)> evaluation;
};

// Returns this rank's part of the Trace, without a header.
Result<trace::Trace> perform(const plan::Plan& plan, const schedule::Order& order,
                             const PerformOptions& options, Kernels& kernels, Messenger& messenger,
                             Clock& clock, const Hooks& hooks);

// The rank that holds a stage, and those a rank exchanges bytes with.
int32_t rank_of_stage(const plan::Plan& plan, int32_t stage);
std::vector<int32_t> neighbours(const plan::Plan& plan, int32_t rank);

}  // namespace tombolo::runtime
