// How long one pipeline stage takes for one microbatch, and the law that says so.
#pragma once

#include "base/units.h"
#include "spec/cluster/cluster.h"
#include "spec/model/model.h"
#include "spec/plan/stage_cost.h"

namespace tombolo::cost {

// What the law needs to know about the training.
struct StageWork {
  int64_t micro_batch = 1;   // sequences
  double element_bytes = 2;  // of weights and activations
  model::Recompute recompute = model::Recompute::kNone;
  double state_bytes = 16;  // per parameter: weights, gradients, optimizer
};

// Law `roofline`: arithmetic at a fixed share of peak, or memory traffic, whichever is longer.
//
//   forward  = max(layers and head / (efficiency peak) + scores / (attention_efficiency peak),
//                  weights / memory_bandwidth)
//   backward = 2 forward;  recompute = forward (full), scores only (selective), 0 (none)
//   update   = 2 state_bytes parameters / memory_bandwidth        (read and write)
//
// Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009. Domain: one device per stage
// (no tensor parallelism), large matrices. Within about a third of published layer times;
// docs/laws/roofline.md has the figures.
plan::StageCost roofline(const model::Model& model, const model::Slice& slice,
                         const cluster::Device& device, const StageWork& work);

}  // namespace tombolo::cost
