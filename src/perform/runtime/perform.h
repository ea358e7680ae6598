// One rank performs its part of a Plan: the schedule's actions in order, for every iteration, with
// real bytes, behind Kernels and Messenger.
//
//   SEND         hands the result over and goes on
//   RECV         waits for the message, and draws the link's interval from the sender's stamp
//   F B I W R U  Kernels
//   REDUCE_GRAD  Kernels, with the other replicas of the stage
//   E            held-out data passes through the stages of every pipeline, each with its share,
//                every run.evaluate_every steps and at the end
//   C            begins to write the state, every checkpoint.every steps and at the end, while the
//                next iterations run (checkpoint_writer.h); replica 0 alone writes
//
// Where there are replicas their weights are hashed every run.compare_replicas_every steps and at
// the end; whoever gets the reports compares (run_book.h).
//
// A rank holds one stage or several. Between two stages of its own a result passes at once and
// without a message; schedules have no SEND or RECV there.
//
// Intervals of a link are written by its receiver, which alone knows both ends. Evaluation and
// checkpoints belong to iteration 0.
#pragma once

#include <functional>
#include <optional>

#include "base/clock.h"
#include "perform/runtime/checkpoint.h"
#include "perform/runtime/checkpoint_writer.h"
#include "perform/runtime/kernels.h"
#include "perform/runtime/messenger.h"
#include "spec/plan/plan.h"
#include "spec/schedule/schedule.h"
#include "spec/trace/trace.h"

namespace tombolo::runtime {

// What a rank did in one iteration. Times since the run's origin.
struct IterationReport {
  int64_t iteration = 0;
  SimTime start;                              // of its first computation
  SimTime end;                                // of its update
  std::optional<double> loss;                 // on the last stage: of this replica's micro-batches
  std::optional<std::string> weights_digest;  // where replicas are compared
  std::optional<double> late_s;               // of emulated ranks: lost to the machine
  std::optional<double> gradient_norm;        // on the last stage, where it is clipped and finite
  bool update_skipped = false;                // because it was no number
  SimDuration wan_wait;  // for messages from other datacenters, and for sums with replicas there
};

// Held-out text after a step, from a rank of the last stage: the mean over its share.
struct Evaluation {
  int64_t step = 0;
  double loss = 0;
  int64_t batches = 1;
};

struct PerformOptions {
  int32_t rank = 0;
  int64_t first_iteration = 1;
  SimTime origin;             // on the clock: time 0 of the Trace
  SimDuration release;        // the pipeline's first forward begins no earlier than so long
                              // after the iteration does (schedule::Schedule)
  bool emulated_wan = false;  // shape_between
  // Ranks share a host. Otherwise nothing is paced, and a transfer is drawn as the instant at which
  // it came, because nobody here knows when it left.
  bool one_clock = true;
  int64_t intervals_max = 1'000'000;  // about 80 bytes each; later iterations are not drawn
  Room has_room = {};  // for copies of what an update finds unwritten; left out: always
};

// Called on the performing thread, those about shards on the writing one; a failure ends the run.
struct Hooks {
  std::function<Status(int64_t step)> before_update;  // the weights are still those after this step
  std::function<Status(const IterationReport&)> iteration;
  std::function<Status(int64_t step, const Shard& shard)> shard;
  std::function<Status(const Evaluation&)> evaluation;
  CheckpointWriter::Write write = {};                 // left out: into the Plan's directory
  std::function<void(const std::string&)> note = {};  // one line for people
  // Of a shard that could not be written, and the run goes on; left out: that ends it.
  CheckpointWriter::Miss missed = {};
};

// Returns this rank's part of the Trace, without a header. Records: "loss" and "evaluation_loss";
// where there are replicas "replica_loss", "replica_evaluation_loss" and
// "replica_evaluation_batches", of which merge_parts makes the former; "checkpoint_write_s", how
// long a shard took to be written, and "checkpoint_held_s", how long the next update was held up
// by it; "machine_late_s" of emulated ranks (machine_load.h).
Result<trace::Trace> perform(const plan::Plan& plan, const schedule::Order& order,
                             const PerformOptions& options, Kernels& kernels, Messenger& messenger,
                             Threads& clock, const Hooks& hooks);

// Those a rank exchanges bytes with: who holds a stage before or after one of its own in its
// pipeline, the other replicas of its stages, and its other_end(). Ascending, each once, never
// itself.
std::vector<int32_t> neighbours(const plan::Plan& plan, int32_t rank);

// The rank that holds the other copy of a tied embedding: of the first stage for who holds the
// last, and the other way round. Nothing where both are of one rank, nothing is tied, nothing is
// computed (emulated devices), or there is no WAN link between their datacenters.
std::optional<int32_t> other_end(const plan::Plan& plan, int32_t rank);

}  // namespace tombolo::runtime
