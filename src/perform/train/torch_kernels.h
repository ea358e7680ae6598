// Kernels that compute with LibTorch on a CPU.
//
// A microbatch's forward pass keeps its input and output, which hold the graph that the backward
// pass runs; with recompute = "full" it keeps the input alone until recompute(), or, where operators of pairs are
// arranged (stage_pairs.h), the input of each layer, of which the backward pass computes the rest again. The last stage
// draws the targets itself and divides its loss by the number of microbatches of all pipelines, so
// adding the gradients of all microbatches gives their mean on every stage.
//
// A backward pass in halves (I, then W) does what a whole one does, in another order
// (weight_gradients.h).
//
// The pipelines of a Plan divide the microbatches of the global batch in their order, and each
// sample weighs the same in the gradient: together what one process would see. Its part of the held-out text is contiguous too,
// and where [data] has shares, one of what the readers of its share hold out.
// The stage's replicas sum their gradients as one tensor (replica_group.h).
//
// Where the embedding of the first stage is the head of the last one, each has a copy, and updates
// come after the sum of both gradients: in memory where one rank has both, else from rank to rank
// (Kernels::tied_gradient). Checkpoints hold it once.
//
// With precision = "bf16", activations are bfloat16, and so are what stages send each other and the
// copies of matrices that products read. Parameters, gradients, their sums and the optimizer's
// state are float32, hence 18 bytes per parameter of a matrix with AdamW (Megatron-LM's); an
// embedding that is no head, norms and biases have no copy. Checkpoints hold no bfloat16.
//
// The loss is in nats per token. What checkpoints hold: stage_state.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "perform/kernels/kernels.h"
#include "perform/train/cpu_features.h"
#include "spec/plan/plan.h"

namespace tombolo::train {

// Opens the data of its pipeline where the rank has the first or the last stage. Unusable, by name,
// for what cannot be computed here (check_plan.h), the slow netlib BLAS, an unreadable text. From
// then on the process computes with [run] threads, 1 if the job does not set it. `cpu` may claim bf16
// products that the processor lacks: then results are the same, computed slowly.
Result<std::unique_ptr<kernels::Kernels>> make_torch_kernels(
    const plan::Plan& plan, int32_t rank, const CpuFeatures& cpu = cpu_features());

// "2.6.0".
std::string libtorch_version();

}  // namespace tombolo::train
