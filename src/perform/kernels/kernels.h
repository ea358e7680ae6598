// Kernels: what a rank computes. The runtime decides when; Kernels decide how.
//
// Two implementations: train::TorchKernels computes with LibTorch, EmulatedKernels waits for as
// long as the Plan says the real thing would take. Activations and gradients pass as bytes,
// row-major [micro_batch, sequence, hidden] in the Plan's precision.
//
// A rank holds one stage or several (Layout, plan/settings.h); every call says which, by its number
// in the Plan.
//
// One thread calls, except state(); calls follow the schedule. Of each stage, a microbatch's
// forward comes before its backward, an iteration's backwards before its gradient all-reduce, that
// before its update.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_digest.h"
#include "base/result.h"
#include "base/time.h"
#include "spec/plan/stage_cost.h"

namespace tombolo::kernels {

class Messenger;        // messenger.h
class ParameterGroups;  // parameter_groups.h
class PairKernels;      // pair_kernels.h

using Payload = std::vector<std::byte>;

// How late the waits of an iteration ended, where kernels wait instead of computing.
struct Lateness {
  SimDuration kept;  // how much longer all waits together took than planned
  SimDuration sum;   // of how late each wait ended; the next one makes up for most of it
  int64_t waits = 0;
};

// The ranks that hold the same stages, one per pipeline, and how they reach each other.
struct Replicas {
  std::vector<int32_t> ranks;      // of these stages, ascending: ranks[i] is replica i
  size_t own = 0;                  // this rank is ranks[own]
  Messenger* messenger = nullptr;  // outlives the Kernels' use of it; links to all ranks are up
  // They are in different datacenters: their all-reduce crosses the links between these, also when
  // all are emulated on one host.
  bool lie_apart = false;
  // Of this host, as the other replicas reach it, for libraries that open sockets of their own:
  // "127.0.0.1", or its address in an emulated island.
  std::string address;
  bool one_clock = true;  // of all of them: they share a host
};

// What a rank knows of the data before it trains, for comparing with other ranks (dataset_fingerprint.h).
struct DataFacts {
  struct File {
    std::string path;
    FileDigest content;
  };
  std::vector<File> files;         // that this rank reads; empty: none
  int64_t evaluation_batches = 0;  // of this rank's pipeline
};

// A named array of a checkpoint, in the words of safetensors.
struct NamedTensor {
  std::string name;  // global: the same wherever the layer runs ("layers.3.attention.query.weight")
  std::string dtype;  // "F32", "BF16", "I64", ...
  std::vector<int64_t> shape;
  Payload bytes;  // row-major, little-endian

  bool operator==(const NamedTensor&) const = default;
};

// The same, where it lies.
struct TensorView {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};
std::vector<TensorView> views_of(std::span<const NamedTensor> tensors);
int64_t bytes_of(std::span<const TensorView> tensors);  // all together

// Gives the tensor of this name, one at a time: unusable where there is none, or it is damaged.
using TensorSource = std::function<Result<NamedTensor>(const std::string& name)>;
// Of tensors that lie in memory and outlive the source. Linear search for each.
TensorSource source_of(std::span<const NamedTensor> tensors);

// A replica's part of `all` things that the replicas split between them: contiguous, as even as
// possible, the first ones one more.
struct Share {
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const Share&) const = default;
};
constexpr Share share_of(int64_t all, int64_t replica, int64_t replicas) {
  const int64_t each = all / replicas, more = all % replicas;
  return {replica * each + (replica < more ? replica : more), each + (replica < more ? 1 : 0)};
}

class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual int64_t threads() const { return 1; }  // with which they compute

  // Their other interfaces; null: these kernels cannot do what needs it.
  virtual ParameterGroups* parameters() { return nullptr; }
  virtual PairKernels* pairs() { return nullptr; }

  // Where the Plan has replicas: called once, after load() and before the first iteration. All
  // replicas call it at about the same time and may talk to each other, now and in
  // reduce_gradients(), with tensor numbers from kReplicaTensor on (messenger.h).
  virtual Status join_replicas(const Replicas& replicas) = 0;

  // Instead of load(), if there is no state to resume from: reads the job's pretrained weights, if it
  // has any. Fails if they cannot be read.
  virtual Status begin_anew() { return {}; }

  // Where the Plan names data, before the first iteration. Ranks that read none are told how many
  // evaluation_batches() there are.
  virtual Result<DataFacts> data_facts() const { return DataFacts{}; }
  virtual void expect_evaluation_batches(int64_t /*batches*/) {}

  // How many microbatches each pipeline computes from the next iteration on, where the Plan lets a run
  // change that. Their total stays, and with it the weight of a sample in the gradient.
  virtual void divide_batch(const std::vector<int64_t>& /*microbatches*/) {}

  // Iterations count from 1; after a resume they continue from the checkpoint.
  virtual Status begin_iteration(int64_t iteration) = 0;

  // input: from the previous stage, empty on stage 0. Returns what the next stage gets, empty on
  // the last stage.
  virtual Result<Payload> forward(int32_t stage, int64_t microbatch, Payload input) = 0;

  // Repeats the forward pass whose intermediate results were dropped.
  virtual Status recompute(int32_t stage, int64_t microbatch) = 0;

  // output_gradient: from the next stage, empty on the last. Returns the gradient for the previous
  // stage, empty on stage 0. Weight gradients accumulate until update().
  virtual Result<Payload> backward(int32_t stage, int64_t microbatch, Payload output_gradient) = 0;

  // The same in two halves: first the gradient that the previous stage waits for, later the gradients
  // of the weights. Both together leave what backward() leaves.
  virtual Result<Payload> backward_input(int32_t stage, int64_t microbatch,
                                         Payload output_gradient) = 0;
  virtual Status backward_weight(int32_t stage, int64_t microbatch) = 0;

  // Sums the stage's weight gradients of the iteration over all replicas, in one fixed order, so
  // that all hold the same bits. Called after its last backward, where the Plan has replicas.
  virtual Status reduce_gradients(int32_t stage) = 0;
  // If the Plan says that these sums begin during passes (schedule::sums_begin): how long after the
  // start of the pass that is called next. Kernels that compute do their sums after all passes, and
  // nothing here.
  virtual Status sums_begin(SimDuration /*after*/) { return {}; }
  // From when to when the last sum lasted, on the clock, if that is not the time of its call: only kernels
  // that wait instead of computing report it.
  struct Summed {
    SimTime start, end;
  };
  virtual std::optional<Summed> summed() const { return std::nullopt; }

  // What the last pass spent on communication inside it: of shards with each other, of replicas that share out
  // parameters or gradients. Nothing: it does not communicate, or the kernels wait and the Plan has the figure.
  virtual std::optional<plan::PassCommunication> communicated() const { return std::nullopt; }

  // On the ranks that Plan::other_end names, once between the last gradient of the iteration and its
  // norm and first update: the gradient of this rank's copy of a tied embedding; and the other rank's,
  // which is added to it.
  virtual Result<Payload> tied_gradient() { return Payload{}; }
  virtual Status add_tied_gradient(const Payload& /*theirs*/) { return {}; }

  // Where [optimizer].clip_norm is set, once between the last gradient of the iteration and its
  // first update: the sum of squares over all gradients of this rank's stages, equal on all
  // replicas. Nothing: these kernels have no gradients.
  virtual Result<std::optional<double>> gradient_squares() { return std::nullopt; }
  // After it: gradients are multiplied by `scale` in the updates of this iteration. 0: update() leaves
  // weights and optimizer state as they are.
  virtual void scale_gradients(double scale) { static_cast<void>(scale); }

  // One optimizer step of the stage with the mean gradient of the iteration, over all replicas'
  // microbatches.
  virtual Status update(int32_t stage) = 0;

  // After update(): the mean loss of this replica's microbatches in nats per token, on the rank
  // of the last stage only.
  virtual std::optional<double> loss() const = 0;

  // The largest so far: bytes of weights, gradients and optimizer state of this rank, every tensor
  // counted, once the gradients of an iteration are complete. The Plan's figure is Stage::state. 0:
  // kernels that hold none.
  virtual int64_t state_bytes() const { return 0; }

  // Held-out data: evaluation_batches() microbatches, this replica's share_of all, passed through
  // the stages one after the other. evaluate() counts from 0 within the share. The last stage
  // returns an empty payload and keeps the mean for evaluation_loss().
  virtual int64_t evaluation_batches() const = 0;
  virtual Result<Payload> evaluate(int32_t stage, int64_t batch, Payload input) = 0;
  virtual std::optional<double> evaluation_loss() const = 0;

  // Of the current iteration; nothing for kernels that compute.
  virtual std::optional<Lateness> lateness() const { return std::nullopt; }

  // A hash of all weights and optimizer state of this rank: equal on all replicas, or something is
  // broken. Costs a pass over the state.
  virtual Result<std::string> weights_digest() const = 0;

  // Everything that resuming bit-exactly needs, where it lies: weights and optimizer state of this
  // rank's stages. The views hold as long as the kernels do; load() and update() change what they
  // show. So another thread may call this, and read, while a pass computes: a pass writes nothing
  // of it. During load() and update() no thread may. Cost: nothing that grows with the state.
  virtual Result<std::vector<TensorView>> state() const = 0;
  // A copy of it. Cost: a second state in memory.
  Result<std::vector<NamedTensor>> save() const;

  // Asks for the tensors that the stages need, each once, and copies one before it asks for the
  // next: at most one is in memory in addition to the state itself. Fails as the source does, or naming
  // a tensor of another shape, and leaves a state that must not be used.
  virtual Status load(const TensorSource& tensors) = 0;
};

}  // namespace tombolo::kernels
