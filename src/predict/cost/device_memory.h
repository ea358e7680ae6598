// Memory of a device under tensor, sequence, context, expert, data and pipeline parallelism.
//
// State is counted (model::parameters of what a stage holds), divided by tensor and expert
// parallelism and by ZeRO. Activations are what backward passes read, tensor by tensor: Korthikanti
// et al. 2022, equations 1 to 6, extended to gated MLPs, grouped queries, latent attention, experts
// and fused attention. What a framework needs besides is a few constants of its stack.
//
// The stage whose device needs most is reported. With 1F1B the first one keeps most activations,
// the last one holds the head and its logits, the second may have a layer more than the first. The
// others need no more than these, unless a position holds chunks of different sizes: then all are
// examined. Formulas, sources and measured errors:
// docs/laws/device_memory.md.
#pragma once

#include "base/units.h"
#include "predict/cost/configuration.h"
#include "predict/cost/constants.h"
#include "spec/model/model.h"

namespace tombolo::cost {

struct DeviceMemory {
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer;
  Bytes activations;  // kept from forward to backward, of all microbatches in flight
  Bytes workspace;    // logits, temporary buffers, a layer's gathered parameters, the framework's
  Bytes gathered;     // by ZeRO 3 for a whole iteration: all of a stage, where there are several
  Bytes prefill;      // the shard of the model of [prefill]

  Bytes total() const {
    return parameters + gradients + optimizer + activations + workspace + gathered + prefill;
  }
  bool operator==(const DeviceMemory&) const = default;
};

// What the numbers of a device depend on besides the configuration.
struct MemoryInputs {
  double element_bytes = 2;  // of weights and activations
  // Per parameter, weights, gradients and optimizer together. 16, Adam in mixed precision, stands
  // for what the stack keeps: parameter_memory + gradient_memory + optimizer_memory, and in float32,
  // where weights are their own master copy, 4 less that copy. Of any other number the optimizer has what weights and gradients leave.
  double state_bytes = 16;
  bool bf16 = true;  // some stacks add up gradients of this format in float32
  Bytes prefill;     // kept for the model of [prefill]
};

// Cost: well under a microsecond, no allocation; with virtual stages about one per position that is
// looked at, and two small allocations. A pure function.
DeviceMemory device_memory(const model::Model& model, const Configuration& configuration,
                           const StackConstants& stack, const MemoryInputs& inputs);

// The same for one position of the pipeline, with all chunks that it holds.
DeviceMemory stage_memory(const model::Model& model, const Configuration& configuration,
                          const StackConstants& stack, const MemoryInputs& inputs, int64_t stage);

// The same for any layers, of which `waiting` forward passes wait for their backward pass: for
// plans whose stages differ.
DeviceMemory slice_memory(const model::Model& model, const Configuration& configuration,
                          const StackConstants& stack, const MemoryInputs& inputs,
                          const model::Slice& slice, double waiting);

}  // namespace tombolo::cost
