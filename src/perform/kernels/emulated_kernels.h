// EmulatedKernels: waits for as long as the Plan says a stage takes, and sends real bytes.
//
// Nothing is computed, and only what crosses a socket is allocated. A payload carries a
// pattern that follows from iteration, microbatch, boundary and direction; the receiver checks it,
// so a run with emulated kernels is an end-to-end test of transport and schedule.
//
// Waiting: a sleep ends late, by some 60 us on a plain kernel. The lateness of one wait is taken
// off the next, so that it does not add up; beyond 10 ms it is kept, as the sign of a busy machine.
//
// A rank is one position of one pipeline with all its tensor x context shards, as it is one actor of the
// simulator: its passes last as the Plan says, with what its collectives keep it waiting inside, and its
// messages carry the bytes of all shards.
//
// Where the Plan exchanges gradients by groups, passes stop at the groups' borders and gradients are
// made up (emulated_groups.h). Elsewhere replicas really pass their gradients around a ring
// (ring_exchange.h), in chunks of such patterns, where that takes no longer than the Plan says
// (sums_in_a_ring). Where it does - collectives in a node and between nodes, ZeRO, what is hidden behind
// the last passes - replicas tell each other when they began, and the sum lasts from the last of them on
// for as long as the Plan says, or as its bytes need to pass the ports of the devices, as the simulator has it:
// its time, not its bytes. That other messages pass the same ports at the same time makes no sum longer.
//
// A rank with several stages passes payloads between neighbours of its own as it does over a link.
// The two halves of a backward last half of it each, as the simulator has it
// (schedule::durations_of).
//
// run.byte_scale makes everything that counts bytes smaller and slower by the same factor: payloads
// and gradients here, rates in messenger.h. Times stay as they are, so a few cores can emulate many
// ranks.
#pragma once

#include <map>

#include "base/clock.h"
#include "perform/kernels/emulated_groups.h"
#include "perform/kernels/kernels.h"
#include "perform/kernels/pair_kernels.h"
#include "perform/kernels/ring_exchange.h"
#include "spec/plan/plan.h"

namespace tombolo::kernels {

// What one microbatch puts on the wire: plan.boundary, or 64 KiB to stand for it where there is no model
// to say (a Trace then says 0, as its prediction does); divided by run.byte_scale.
int64_t payload_bytes(const plan::Plan& plan);

// What each replica of a stage contributes to the gradient all-reduce, divided by run.byte_scale.
int64_t gradient_bytes(const plan::Plan& plan, int32_t stage);

// Whether the replicas of a stage pass their gradients around a ring of messages, all shards of a rank at the same
// time: if all is summed after the last backward pass, and the Plan gives that at least as long as a ring of
// these ranks needs.
bool sums_in_a_ring(const plan::Plan& plan, int32_t stage);

// What an end of a pipeline sends the other (Plan::other_end), divided by run.byte_scale.
int64_t tied_gradient_bytes(const plan::Plan& plan);

// Unusable if run.byte_scale is not possible: on devices that compute, if it leaves nothing of a
// payload, and if a message would still be larger than the transport takes.
Status check_byte_scale(const plan::Plan& plan);

class EmulatedKernels : public Kernels, public PairKernels {
 public:
  struct Options {
    bool check_every_byte = false;  // otherwise length, first and last eight bytes
  };
  EmulatedKernels(const plan::Plan& plan, int32_t rank, Clock& clock, Options options);
  EmulatedKernels(const plan::Plan& plan, int32_t rank, Clock& clock)
      : EmulatedKernels(plan, rank, clock, Options{}) {}

  ParameterGroups* parameters() override { return groups_ ? &*groups_ : nullptr; }
  PairKernels* pairs() override { return this; }
  Status join_replicas(const Replicas& replicas) override;
  Status begin_iteration(int64_t iteration) override;
  Result<Payload> forward(int32_t stage, int64_t microbatch, Payload input) override;
  Status recompute(int32_t stage, int64_t microbatch) override;
  Result<Payload> backward(int32_t stage, int64_t microbatch, Payload output_gradient) override;
  Result<Payload> backward_input(int32_t stage, int64_t microbatch,
                                 Payload output_gradient) override;
  Status backward_weight(int32_t stage, int64_t microbatch) override;
  // Each side ends when the Plan says that it does within the pair.
  Status co_execute(PairOfPasses passes, const PairResults& results) override;
  Status reduce_gradients(int32_t stage) override;
  Status sums_begin(SimDuration after) override;
  std::optional<Summed> summed() const override { return summed_; }
  Result<Payload> tied_gradient() override;
  Status add_tied_gradient(const Payload& theirs) override;
  Status update(int32_t stage) override;
  std::optional<double> loss() const override { return std::nullopt; }
  int64_t evaluation_batches() const override { return 0; }
  Result<Payload> evaluate(int32_t stage, int64_t batch, Payload input) override;
  std::optional<double> evaluation_loss() const override { return std::nullopt; }

  Result<std::string> weights_digest() const override;
  // One number per layer: how many updates it has seen. If the exchange is sparse, also parameters and
  // residuals.
  Result<std::vector<TensorView>> state() const override;
  Status load(const TensorSource& tensors) override;

  std::optional<Lateness> lateness() const override { return iteration_lateness_; }
  int64_t updates() const { return stages_.begin()->second.updates; }

 private:
  struct Held {
    plan::Stage stage;
    int64_t gradients = 0;         // bytes, of all of them
    bool in_a_ring = false;        // they are summed
    SimDuration beyond_ring = {};  // what the Plan says that this takes longer
    SimDuration sum = {};          // elsewhere, from when the last replica begins
    int64_t updates = 0;
  };
  Held& held(int32_t stage);
  void wait(SimTime start, SimDuration duration);
  void wait_until(SimTime due);
  EmulatedGroups::Wait waiting() {
    return [this](SimTime start, SimDuration duration) { wait(start, duration); };
  }
  // What takes the time of a pass, from `start` on.
  using Spend = std::function<void(SimTime start)>;
  Result<Payload> go_back(int32_t stage, int64_t microbatch, Payload output_gradient,
                          const Spend& spend);
  void make_gradients(int32_t stage, SimTime start, SimDuration duration);
  // `stage` is the one that received it.
  Status check(const Payload& payload, int32_t stage, int64_t microbatch, bool gradient) const;
  Status check_pattern(const Payload& payload, uint64_t first) const;
  Status reduce_in_a_ring(int32_t stage);
  Status say_begin(SimTime begin);
  Status await_begins();
  Status check_chunk(int32_t stage, const RingStep& step, const Payload& payload) const;
  int64_t chunk_bytes(int32_t stage, const RingStep& step) const;

  Clock& clock_;
  const Options options_;
  std::map<int32_t, Held> stages_;  // those of this rank
  const std::vector<plan::PairCost> pairs_;
  const int64_t payload_;      // bytes of a payload
  const int64_t tied_;         // bytes of the gradient of a tied embedding
  const link::LinkShape hop_;  // from the predecessor in the ring of replicas
  int64_t iteration_ = 0;
  Replicas replicas_;
  std::optional<EmulatedGroups> groups_;  // where the Plan exchanges them
  // Of this iteration's sums: when this rank began, as it told the others; when the last of all did, or the
  // sum before ended, once that is known.
  std::optional<SimTime> begun_, sums_at_;
  std::optional<Summed> summed_;
  SimDuration lateness_;  // of the waits so far, to be made up for
  Lateness iteration_lateness_;
};

// The pattern between stage `boundary` and the next one, as eight-byte words that count up from a
// digest of the other arguments.
Payload pattern(int64_t bytes, int64_t iteration, int64_t microbatch, int32_t boundary,
                bool gradient);

}  // namespace tombolo::kernels
