// Law `tombolo`: how long one training iteration takes, operator by operator.
//
// A layer is a list of matrix products, attention and element-wise passes. Each runs at what its
// size reaches of the device's peak or memory bandwidth (DeviceConstants), and the whole layer no
// faster than the host can launch it (StackConstants: the floor under small models). Collectives
// take latency and bytes over what the fabric reaches (FabricConstants). What the stack overlaps is
// taken off, never below zero.
//
//   forward, backward of a stage = layers x (max(kernels, host) + exposed collectives) + ends
//   iteration = m slowest + sum of the other stages / v        1F1B: fill, steady state, drain
//             + exposed transfers between stages + exposed gradient reduction + optimizer
//
// m microbatches, v virtual stages, `ends` the embedding or the head. For equal stages the second
// line is (m + (p-1)/v)(f + b). docs/laws/tombolo.md derives each term and names its source;
// docs/results/published_runs.md has its errors on a thousand published measurements.
//
// Domain: decoders on one homogeneous cluster; stages of other devices are priced one by one by
// stage(). Cost: about two microseconds per configuration, no allocation; const calls may run on
// several threads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "predict/cost/configuration.h"
#include "predict/cost/constants.h"
#include "predict/cost/device_memory.h"
#include "spec/cluster/cluster.h"
#include "spec/model/model.h"

namespace tombolo::cost {

// The parts of an iteration, on the critical path, adding up to its time.
struct IterationTime {
  Seconds compute;               // of the slowest stage, all microbatches, with host floor
  Seconds bubble;                // fill and drain of the pipeline: computation of other stages
  Seconds bubble_communication;  // and transfers
  Seconds tensor_communication;  // exposed, as all that follow
  Seconds context_communication;
  Seconds expert_communication;
  Seconds pipeline_communication;
  Seconds data_communication;  // gradients, and parameters with ZeRO
  Seconds optimizer;
  Seconds overhead;  // of the host, once per iteration

  Seconds total() const {
    return compute + bubble + bubble_communication + tensor_communication + context_communication +
           expert_communication + pipeline_communication + data_communication + optimizer +
           overhead;
  }
};

struct Prediction {
  IterationTime time;
  DeviceMemory memory;
};

// One stage alone, per microbatch: for plans whose stages differ in devices or layers. The sums of
// what StageParts lists separately; stragglers counted.
struct StagePrice {
  Seconds forward;    // collectives inside the stage included
  Seconds backward;   // recomputation included
  Seconds update;     // optimizer, once per iteration
  Seconds gradients;  // exposed gradient reduction, once per iteration
};

// One pass of a stage in its parts, which add up to it: computation, and what the stack leaves
// exposed of the collectives inside.
struct PassPrice {
  Seconds compute;
  Seconds tensor;
  Seconds context;
  Seconds expert;
  Seconds data;  // ZeRO 3 gathers parameters for each pass, and sums gradients after each backward

  Seconds total() const { return compute + tensor + context + expert + data; }
};

// The same stage as a Plan has it, with recomputation listed separately; stragglers counted.
struct StageParts {
  PassPrice forward;
  PassPrice backward;        // without recomputation
  PassPrice recompute;       // zero where activations are kept
  Seconds gradients;         // sums and gathers once per iteration, exposed
  Seconds gradients_hidden;  // and behind the last backward pass
  Seconds update;            // optimizer, once per iteration
  Seconds overhead;          // of the host, once per iteration and rank
};

// Of it, what the device computes, and waits for its host; collectives left out.
struct StageCompute {
  Seconds forward;
  Seconds backward;  // recomputation included
};

struct LawSettings {
  std::string stack = "tombolo";
  double element_bytes = 2;
  bool fp8 = false;  // matrix products at 8 bits
  bool bf16 = true;  // weights and activations, rather than fp16 or fp32
  double state_bytes = 16;
  Bytes prefill;  // kept on every device for the model of [prefill]
  // Stragglers count by all nodes of the datacenter, rather than by those that a configuration
  // fills: where a pipeline continues in other datacenters, no configuration says how many nodes it
  // has here.
  bool all_nodes = false;
};

class IterationLaw {
 public:
  // Unusable: a stack or fabric that has no constants. What had to be assumed is in constants().
  static Result<IterationLaw> make(const model::Model& model, const cluster::Datacenter& datacenter,
                                   const LawSettings& settings);
  // For the calibration, which tries constants.
  IterationLaw(const model::Model& model, const cluster::Datacenter& datacenter,
               const LawSettings& settings, Constants constants);

  Prediction predict(const Configuration& configuration) const;
  // The same with the number of layers given per stage; no virtual stages.
  Prediction predict(const Configuration& configuration,
                     const std::vector<int64_t>& layers_per_stage) const;
  IterationTime time(const Configuration& configuration) const;
  DeviceMemory memory(const Configuration& configuration) const;
  StagePrice stage(const Configuration& configuration, const model::Slice& slice) const;
  StageParts stage_parts(const Configuration& configuration, const model::Slice& slice) const;
  StageCompute stage_compute(const Configuration& configuration, const model::Slice& slice) const;
  // Of the slice, on each device.
  double parameters_held(const Configuration& configuration, const model::Slice& slice) const;
  // Its memory, with this many microbatches between forward and backward.
  DeviceMemory stage_memory(const Configuration& configuration, const model::Slice& slice,
                            int64_t microbatches_in_flight) const;
  // One microbatch from a stage to the next inside the datacenter.
  Seconds transfer(const Configuration& configuration) const;
  // One microbatch over a stage boundary, per device: bytes that each device sends.
  Bytes boundary(const Configuration& configuration) const;

  // No configuration with these degrees is faster: all operations at the best rate the constants
  // allow, spread evenly, no communication. For pruning.
  Seconds lower_bound(const Configuration& configuration) const;

  const model::Model& model() const { return model_; }
  const cluster::Datacenter& datacenter() const { return datacenter_; }
  const Constants& constants() const { return constants_; }
  // Whether selective recomputation differs from none. With fused attention it may not: its scores
  // are never kept.
  bool selective_recompute_differs() const {
    return constants_.stack.attention != Attention::kFlash ||
           constants_.stack.selective != SelectiveRecompute::kAttention;
  }

 private:
  model::Model model_;
  cluster::Datacenter datacenter_;
  LawSettings settings_;
  Constants constants_;
};

// What utilisation is a share of: the device's rate at the precision of matrix products.
FlopsPerSecond usable_peak(const cluster::Device& device, bool fp8);

// Operations of an iteration without those done again: three times forward (model::forward_flops).
Flops model_flops(const model::Model& model, int64_t global_batch);

}  // namespace tombolo::cost
