// Kernels that compute with LibTorch on one core.
//
// A micro-batch's forward pass keeps its input and output, which hold the graph that the backward
// pass runs; with recompute = "full" it keeps the input alone until recompute(). The last stage
// draws the targets itself and divides its loss by the number of micro-batches of all pipelines, so
// gradients sum to their mean on every stage without further ado.
//
// A backward pass in halves (I, then W) does what a whole one does, in another order
// (weight_gradients.h).
//
// Pipeline r of a Plan computes micro-batches r M to r M + M - 1 of the global batch, M per
// pipeline: together what one process would see. Its part of the held-out text is contiguous too,
// and where [data] has shares, one of what the readers of its share hold out.
// The stage's replicas sum their gradients as one tensor (replica_group.h).
//
// Where the embedding of the first stage is the head of the last one, each has a copy, and update()
// begins with the sum of both gradients: in memory where one rank has both, else from rank to rank
// (Kernels::join_other_end). Checkpoints hold it once.
//
// The loss is in nats per token. Checkpoints hold, per parameter NAME, the tensors NAME,
// NAME.adam.first_moment, NAME.adam.second_moment (F32) and NAME.adam.step (I64, one number).
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "perform/runtime/kernels.h"
#include "spec/plan/plan.h"

namespace tombolo::train {

// Opens the data of its pipeline where the rank has the first or the last stage. Unusable, by name, for what cannot be computed here: other devices than "cpu",
// precisions other than fp32, recompute = "selective", other ways to split the model than stages
// and replicas, the slow netlib BLAS, an unreadable text. From then on the process computes on one
// thread.
Result<std::unique_ptr<runtime::Kernels>> make_torch_kernels(const plan::Plan& plan, int32_t rank);

}  // namespace tombolo::train
