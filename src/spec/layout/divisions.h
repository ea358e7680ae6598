// What must divide what: the one place that says whether a model and a batch can be spread as a job says.
//
// Every command asks here, so that a job is refused by all or by none, with the same words. Searches ask about one degree at a
// time, before there is a whole job.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "spec/layout/parallelism.h"
#include "spec/model/model.h"

namespace tombolo::layout {

// What the job and its stack want of tensor parallelism.
struct Cutting {
  bool sequence_parallel = false;
  bool kv_heads_replicated = false;  // the stack takes more ranks than heads of keys and values
};

// Why a model cannot be divided this way; empty: it can.
//
// Tensor parallelism gives each rank whole heads, keys' and values' heads included, equal parts of
// the MLP's width, and with sequence parallelism of the sequence. Where there are fewer heads of
// keys and values than ranks, the stack may hold each several times (Megatron-Core: a multiple).
// Context parallelism gives each rank two parts of the sequence, an early and a late one, so that a
// causal mask leaves all the same work.
std::string why_not_tensor(const model::Model& model, int64_t tensor, const Cutting& cutting);
std::string why_not_context(const model::Model& model, int64_t context);
std::string why_not_data(int64_t global_batch, int64_t data);
std::string why_not_expert_count(const model::Model& model, int64_t expert);

// Sequences of an iteration, and of a microbatch.
struct Batch {
  int64_t global = 1;
  int64_t micro = 1;
};

// Unusable, naming the key, its value and what to try, where the batch does not divide among the
// pipelines, the schedule does not take as many stages per rank, the layers do not cover the stages,
// or a degree does not divide what it splits. `model` may be null with [stage_times]: then only
// the batch and the stages are checked. `file` is for messages.
Status check_divisions(const Parallelism& parallelism, const Batch& batch,
                       const model::Model* model, bool kv_heads_replicated,
                       const std::string& file);

}  // namespace tombolo::layout
