// Kernels: what a rank computes. The runtime decides when; Kernels decide how.
//
// Two implementations: train::TorchKernels computes with LibTorch, EmulatedKernels waits for as
// long as the Plan says the real thing would take. Activations and gradients pass as bytes,
// row-major [micro_batch, sequence, hidden] in the Plan's precision.
//
// One thread calls; calls follow the schedule. A micro-batch's forward comes before its backward,
// an iteration's backwards before its update.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace tombolo::runtime {

using Payload = std::vector<std::byte>;

// A named array of a checkpoint, in the words of safetensors.
struct NamedTensor {
  std::string name;  // global: the same wherever the layer runs ("layers.3.attention.query.weight")
  std::string dtype;  // "F32", "BF16", "I64", ...
  std::vector<int64_t> shape;
  Payload bytes;  // row-major, little-endian
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  // Iterations count from 1; after a resume they go on where the checkpoint stopped.
  virtual Status begin_iteration(int64_t iteration) = 0;

  // input: from the previous stage, empty on stage 0. Returns what the next stage gets, empty on
  // the last stage.
  virtual Result<Payload> forward(int64_t microbatch, Payload input) = 0;

  // Repeats the forward pass whose intermediate results were dropped.
  virtual Status recompute(int64_t microbatch) = 0;

  // output_gradient: from the next stage, empty on the last. Returns the gradient for the previous
  // stage, empty on stage 0. Weight gradients accumulate until update().
  virtual Result<Payload> backward(int64_t microbatch, Payload output_gradient) = 0;

  // One optimizer step with the mean gradient of the iteration.
  virtual Status update() = 0;

  // After update(): the mean loss of the iteration in nats per token, on the last stage only.
  virtual std::optional<double> loss() const = 0;

  // Held-out data: evaluation_batches() micro-batches, passed through the stages one after the
  // other. The last stage returns an empty payload and keeps the mean for evaluation_loss().
  virtual int64_t evaluation_batches() const = 0;
  virtual Result<Payload> evaluate(int64_t batch, Payload input) = 0;
  virtual std::optional<double> evaluation_loss() const = 0;

  // Everything that resuming bit-exactly needs: weights and optimizer state of this stage. Loading
  // takes the tensors that this stage needs from a larger set and fails naming one that is missing
  // or has another shape.
  virtual Result<std::vector<NamedTensor>> save() const = 0;
  virtual Status load(std::span<const NamedTensor> tensors) = 0;
};

}  // namespace tombolo::runtime
