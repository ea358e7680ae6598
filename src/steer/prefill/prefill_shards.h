// The model of [prefill] over GPUs: what a shard and a KV cache take, and which GPUs of a Plan make
// a prefill pipeline.
//
// BubbleTea (Palak et al. 2024, section 5.1) forms a pipeline of the GPUs with the same rank in
// their DP-cells, inside one datacenter. Here: of the same stage, the same place in the cell and the
// same shard. A Plan whose pipelines share no WAN in time has cells of one pipeline.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "spec/model/model.h"
#include "spec/plan/plan.h"
#include "steer/prefill/prefill_controller.h"

namespace tombolo::prefill {

// Weights and KV cache are stored at 16 bits.
inline constexpr double kStoredBytes = 2;

// What the weights of a slice take.
Bytes shard_bytes(const model::Model& model, const model::Slice& slice);

// Keys and values of one token in one layer: 2 kv_heads head_size numbers, with latent attention
// kv_rank + rope_dim.
Bytes kv_bytes(const model::Model& model);

// `depth` slices as even as `memory` allows: the ones with embedding and head hold fewer layers
// where they would not fit otherwise. Empty: they do not fit, or there are fewer layers.
std::vector<model::Slice> split_shards(const model::Model& model, int64_t depth, Bytes memory);

// The smallest depth that fits, at most `depth_max`; 0: none does.
int64_t depth_min(const model::Model& model, Bytes memory, int64_t depth_max);

// One GPU of a Plan.
struct PrefillGpu {
  int32_t rank = 0;
  int64_t shard = 0;

  bool operator==(const PrefillGpu&) const = default;
};

struct PrefillFleet {
  std::vector<PrefillGpu> gpus;  // by rank, then shard: pipelines count in them
  std::vector<PrefillPipeline> pipelines;
  std::vector<bool> one_node;  // by pipeline: its GPUs share a scale-up fabric
  Bytes shard_max;             // of the largest shard
};

// Of n cells in a datacenter n / depth pipelines are made, as equal as possible, so that every GPU
// serves. The depth is that of [prefill], or the smallest that fits. Tables are left to the caller.
// Infeasible, saying the memory that would do: a shard does not fit.
Result<PrefillFleet> fleet_of(const plan::Plan& plan, const plan::Prefill& prefill);

}  // namespace tombolo::prefill
