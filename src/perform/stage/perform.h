// One rank performs its part of a Plan: the schedule's actions in order, for every iteration, with
// real bytes, behind Kernels and Messenger.
//
//   SEND         hands the result over and does not wait
//   RECV         waits for the message, and draws the link's interval from the sender's stamp
//   F B I W R U  Kernels; a pair of F and B by their face for it (pair_kernels.h), which hands over
//                either result when it is there
//   REDUCE_GRAD  Kernels, with the other replicas of the stage. If these are in several datacenters
//                gradients are reduced in groups, on a thread of its own (exchange_thread.h). Unless
//                the Plan says otherwise that began in the last backward pass; then neither this
//                action nor U waits, and the next forward pass waits for each group that it uses
//   U            before the first of an iteration the ends of a pipeline that hold copies of a tied
//                embedding send each other its gradient (SUM_TIED), and the norm is agreed on
//   E            held-out data passes through the stages of every pipeline, each with its share,
//                every run.evaluate_every steps and at the end
//   C            begins to write the state, every checkpoint.every steps and at the end, while the
//                next iterations run (checkpoint_writer.h); replica 0 alone writes
//
// If there are replicas their weights are hashed every run.compare_replicas_every steps and at the end; the receiver of
// the reports compares the hashes (progress_tracker.h).
//
// A rank holds one stage or several. Between two stages of the same rank a result is passed at once, without a message;
// schedules have no SEND or RECV there.
//
// Intervals of a link are written by its receiver, which alone knows both ends. Evaluation and
// checkpoints belong to iteration 0.
#pragma once

#include <functional>
#include <optional>

#include "base/clock.h"
#include "perform/exchange/density_schedule.h"
#include "perform/kernels/activity.h"
#include "perform/kernels/kernels.h"
#include "perform/kernels/messenger.h"
#include "perform/stage/batch_schedule.h"
#include "perform/stage/iteration_report.h"
#include "perform/state/checkpoint.h"
#include "perform/state/checkpoint_writer.h"
#include "spec/plan/plan.h"
#include "spec/schedule/schedule.h"
#include "spec/trace/trace.h"
#include "steer/prefill/rank_windows.h"

namespace tombolo::stage {

struct PerformOptions {
  int32_t rank = 0;
  int64_t first_iteration = 1;
  SimTime origin;       // on the clock: time 0 of the Trace
  SimDuration release;  // the pipeline's first forward begins no earlier than this long
                        // after the iteration does (schedule::Schedule)
  std::vector<schedule::Pair> pairs = {};  // of this rank's order; Kernels need the face for them
  bool emulated_wan = false;               // shape_between
  // Ranks share a host. Otherwise nothing is paced, and a transfer is drawn as the instant of its arrival, because the
  // receiver's clock cannot tell when it left.
  bool one_clock = true;
  int64_t intervals_max = 1'000'000;  // about 80 bytes each; later iterations are not drawn
  state::Room has_room = {};  // for copies of what an update finds unwritten; left out: always
  prefill::RankWindows* windows = nullptr;  // is told of every computation; null: not needed
  kernels::Activity* activity = nullptr;    // the same
  const exchange::DensitySchedule* density = nullptr;  // of sparse updates; null: the Plan's
  BatchSchedule* batch = nullptr;  // of a Plan whose batch changes; null: it does not
};

// Called one at a time, on the performing thread; but on the exchange's thread if it updates groups of gradients as
// they are summed, and those about shards on the writing thread. A failure ends the run.
struct Hooks {
  std::function<Status(int64_t step)> before_update;  // the weights are still those after this step
  std::function<Status(int64_t step)> updated = {};   // the weights are all those after this step
  std::function<Status(const IterationReport&)> iteration = {};  // updated, and all else is done
  std::function<Status(int64_t step, const state::Shard& shard)> shard = {};
  std::function<Status(const Evaluation&)> evaluation = {};
  state::CheckpointWriter::Write write = {};          // left out: into the Plan's directory
  std::function<void(const std::string&)> note = {};  // one line for people
  // A shard could not be written, and the run continues; left out: that ends the run.
  state::CheckpointWriter::Miss missed = {};
  // The exchange of gradients has failed; called on its thread. perform() will fail, but until then may wait for other
  // ranks.
  std::function<void(const Error&)> exchange_failed = {};
};

// Returns this rank's part of the Trace, without a header. Records: "loss" and "evaluation_loss"; if there are replicas
// "replica_loss", "replica_evaluation_loss" and "replica_evaluation_batches", from which merge_parts makes the former;
// "checkpoint_write_s", how long a shard took to be written, and "checkpoint_held_s", how long that delayed the next
// update; "machine_late_s" of emulated ranks (machine_load.h); if gradients are exchanged during passes "exposed_s",
// how long an iteration waited for that; with staleness "fresh_share", the share of the groups of parameters of which
// the iteration used the newest version; "density" of an iteration's updates, if it may change; "microbatches" of the
// last stage's ranks, if the division of the batch may change.
Result<trace::Trace> perform(const plan::Plan& plan, const schedule::RankActions& order,
                             const PerformOptions& options, kernels::Kernels& kernels,
                             kernels::Messenger& messenger, Threads& clock, const Hooks& hooks);

}  // namespace tombolo::stage
